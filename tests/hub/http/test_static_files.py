"""The page's files as the hub serves them: the same for everybody, small, and never a path of the machine's."""

import gzip
import re
from pathlib import Path

import pytest
from tests.hub.conftest import Running, caller

from tieline.hub.http.static_files import IMMUTABLE, STATIC, StaticFiles

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLACES = (
    "/new", "/settings", "/s/any", "/s/any/diff", "/s/any/at/12", "/messages", "/messages/x", "/messages/x/y", "/dead",
    "/search", "/usage", "/schedules", "/schedules/any", "/index.html",
)  # fmt: skip
LIMIT = 150 * 1024


async def test_every_place_is_the_same_document(shared: Running) -> None:
    async with caller(shared.url) as stranger:
        first = await stranger.get("/")
        assert first.status_code == 200, "`make setup` builds it"
        assert first.headers["content-type"].startswith("text/html")
        for path in PLACES:
            assert (await stranger.get(path)).content == first.content
        assert (await stranger.get("/nothing-here")).status_code in (401, 404)
    own = await shared.client.get("/")
    assert own.content == first.content, "there is nothing of anybody's in it"


async def test_no_inline_script_and_a_strict_policy(shared: Running) -> None:
    page = await shared.client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    for attributes, content in re.findall(r"<script([^>]*)>(.*?)</script>", page.text, re.S):
        assert "src=" in attributes
        assert not content.strip()
    assert not re.search(r"\son\w+=|<style|style=", page.text)


async def test_assets_are_kept_for_good_and_the_document_is_asked_for(shared: Running) -> None:
    page = await shared.client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = await shared.client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assets = re.findall(r'"(/assets/[^"]+)"', page.text)
    assert len(assets) >= 2
    for path in assets:
        assert (await shared.client.get(path)).headers["cache-control"] == IMMUTABLE
    worker = await shared.client.get("/sw.js")
    assert worker.headers["cache-control"] == "no-cache"
    assert "__SHELL" not in worker.text
    for path in assets:
        assert path in worker.text, "it opens without a network"


async def test_it_weighs_little(shared: Running) -> None:
    page = await shared.client.get("/")
    total = 0
    for path in ("/", *re.findall(r'"(/[^"]+\.(?:js|css|svg|webmanifest))"', page.text)):
        async with shared.client.stream("GET", path, headers={"Accept-Encoding": "br, gzip"}) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-encoding"] == "br"
            total += len(b"".join([part async for part in answer.aiter_raw()]))
    assert 10_000 < total <= LIMIT


async def test_packed_only_where_it_is_understood(shared: Running) -> None:
    plain = await shared.client.get("/sw.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    async with shared.client.stream("GET", "/sw.js", headers={"Accept-Encoding": "gzip;q=0.5"}) as answer:
        packed = b"".join([part async for part in answer.aiter_raw()])
    assert gzip.decompress(packed) == plain.content


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2findex.html",
        "/assets/%2e%2e%2f%2e%2e%2fpage.py",
        "/icons/..%5c..%5cpage.py",
        "/assets/none.js",
        "/assets/",
    ],
)
async def test_no_way_out(shared: Running, path: str) -> None:
    assert (await shared.client.get(path)).status_code in (400, 404, 422)


async def test_without_a_build_it_says_what_to_do(tmp_path: Path) -> None:
    assert StaticFiles(tmp_path / "nothing").page(None).status_code == 503  # type: ignore[arg-type]
    assert (STATIC / "index.html").is_file(), "`make setup` builds it"
