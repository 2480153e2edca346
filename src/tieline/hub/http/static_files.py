"""The page: built files from `static/`, the same for everybody. What is somebody's own comes by the API.

Names of files in `assets/` carry a digest of their content, so browsers keep them for good. Every place of the page is
the same document; it finds out by its address what to show.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .problems import Refused
from .request import Asked, Reply
from .routing import get

if TYPE_CHECKING:
    from ..hub import Hub

STATIC = Path(__file__).parents[1] / "static"

PLACES = ("/", "/index.html", "/new", "/settings", "/messages", "/inboxes", "/dead", "/channels")
PLACES_BELOW = ("/s/{id}", "/s/{id}/{sheet}", "/messages/{id}")

MEDIA = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
PACKED = ((".br", "br"), (".gz", "gzip"))
FOR_GOOD = "public, max-age=31536000, immutable"
ASK_FIRST = "no-cache"

MISSING = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Tieline</title>
<p>The hub runs, but its page is not built. In a clone of the repository run <code>make setup</code>.
The terminal works meanwhile: <code>tieline sessions</code>.</p></html>"""


class File:
    """One file in every form it can be sent in."""

    def __init__(self, path: Path, *, hashed: bool) -> None:
        plain = path.read_bytes()
        self.forms = {"": plain}
        for suffix, name in PACKED:
            packed = path.with_name(path.name + suffix)
            if packed.is_file():
                self.forms[name] = packed.read_bytes()
        self.media = MEDIA[path.suffix]
        self.tag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
        self.caching = FOR_GOOD if hashed else ASK_FIRST

    def answer(self, request: Asked) -> Reply:
        headers, said = {"cache-control": self.caching, "etag": self.tag, "vary": "accept-encoding"}, request.headers
        if said.get("if-none-match") == self.tag:
            return Reply(status=304, headers=headers)
        taken = {one.split(";")[0].strip() for one in said.get("accept-encoding", "").split(",")}
        name = next((name for _, name in PACKED if name in taken and name in self.forms), "")
        if name:
            headers["content-encoding"] = name
        return Reply(self.forms[name], media=self.media, headers=headers)


class Shelf:
    """The files of the page by their address, read when the hub starts: no request can name a path."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files: dict[str, File] = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and path.suffix in MEDIA:
                address = "/" + path.relative_to(folder).as_posix()
                self._files[address] = File(path, hashed=address.startswith("/assets/"))

    def page(self, request: Asked) -> Reply:
        found = self._files.get("/index.html")
        if found is None:
            return Reply(MISSING, 503, MEDIA[".html"])
        return found.answer(request)

    def file(self, request: Asked, address: str) -> Reply:
        found = self._files.get(address)
        if found is None:
            raise Refused("NotFound", "there is no such file")
        return found.answer(request)


def routes(hub: "Hub") -> list[Any]:
    shelf = Shelf()

    @get(*PLACES, *PLACES_BELOW, spec=None)
    async def page(request: Asked) -> Reply:
        return shelf.page(request)

    @get("/sw.js", "/manifest.webmanifest", spec=None)
    async def shell(request: Asked) -> Reply:
        return shelf.file(request, request.scope["path"])

    @get("/favicon.ico", spec=None)
    async def favicon(request: Asked) -> Reply:
        return shelf.file(request, "/icons/icon.svg")

    @get("/assets/{name}", spec=None)
    async def asset(request: Asked, name: str) -> Reply:
        return shelf.file(request, f"/assets/{name}")

    @get("/icons/{name}", spec=None)
    async def icon(request: Asked, name: str) -> Reply:
        return shelf.file(request, f"/icons/{name}")

    return [page, shell, favicon, asset, icon]
