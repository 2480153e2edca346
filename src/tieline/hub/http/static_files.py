"""The page: built files from `static/`, the same for everybody. What is somebody's own comes by the API.

Names of files in `assets/` carry a digest of their content, so browsers keep them for good. Every place of the page is
the same document; it finds out by its address what to show.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from .problems import RequestRefused
from .request import Request
from .routing import get

if TYPE_CHECKING:
    from ..hub import Hub

STATIC = Path(__file__).parents[1] / "static"

PAGE_PATHS = (
    "/",
    "/index.html",
    "/new",
    "/settings",
    "/members",
    "/messages",
    "/inboxes",
    "/dead",
    "/channels",
    "/teams",
    "/search",
    "/usage",
    "/schedules",
)
PAGE_PATH_TEMPLATES = (
    "/s/{id}",
    "/s/{id}/{sheet}",
    "/s/{id}/at/{seq}",
    "/messages/{id}",
    "/messages/{id}/{message}",
    "/members/{id}",
    "/teams/{id}",
    "/schedules/{id}",
    "/teams/{id}/{sheet}",
)

MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
ENCODINGS = ((".br", "br"), (".gz", "gzip"))
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"

NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Tieline</title>
<p>The hub runs, but its page is not built. In a clone of the repository run <code>make setup</code>.
The terminal works meanwhile: <code>tieline sessions</code>.</p></html>"""


class StaticFile:
    """One file in every form it can be sent in."""

    def __init__(self, path: Path, *, hashed: bool) -> None:
        plain = path.read_bytes()
        self.encodings = {"": plain}
        for suffix, name in ENCODINGS:
            packed = path.with_name(path.name + suffix)
            if packed.is_file():
                self.encodings[name] = packed.read_bytes()
        self.media = MEDIA_TYPES[path.suffix]
        self.etag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
        self.cache_control = IMMUTABLE if hashed else REVALIDATE

    def respond(self, request: Request) -> Response:
        headers = {"cache-control": self.cache_control, "etag": self.etag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        taken = {encoding.split(";")[0].strip() for encoding in request.headers.get("accept-encoding", "").split(",")}
        name = next((name for _, name in ENCODINGS if name in taken and name in self.encodings), "")
        if name:
            headers["content-encoding"] = name
        return Response(self.encodings[name], headers=headers, media_type=self.media)


class StaticFiles:
    """The files of the page by their address, read when the hub starts: no request can name a path."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files: dict[str, StaticFile] = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and path.suffix in MEDIA_TYPES:
                address = "/" + path.relative_to(folder).as_posix()
                self._files[address] = StaticFile(path, hashed=address.startswith("/assets/"))

    def page(self, request: Request) -> Response:
        file = self._files.get("/index.html")
        if file is None:
            return Response(NOT_BUILT, 503, media_type=MEDIA_TYPES[".html"])
        return file.respond(request)

    def file(self, request: Request, address: str) -> Response:
        file = self._files.get(address)
        if file is None:
            raise RequestRefused("NotFound", "no such file")
        return file.respond(request)


def routes(hub: "Hub") -> list[Any]:
    files = StaticFiles()

    @get(*PAGE_PATHS, *PAGE_PATH_TEMPLATES, spec=None)
    async def page(request: Request) -> Response:
        return files.page(request)

    @get("/sw.js", "/manifest.webmanifest", spec=None)
    async def shell(request: Request) -> Response:
        return files.file(request, request.scope["path"])

    @get("/favicon.ico", spec=None)
    async def favicon(request: Request) -> Response:
        return files.file(request, "/icons/icon.svg")

    @get("/assets/{name}", spec=None)
    async def asset(request: Request, name: str) -> Response:
        return files.file(request, f"/assets/{name}")

    @get("/icons/{name}", spec=None)
    async def icon(request: Request, name: str) -> Response:
        return files.file(request, f"/icons/{name}")

    return [page, shell, favicon, asset, icon]
