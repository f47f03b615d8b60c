"""The dashboard's page and its assets, as they were built: read from the package, sent as they are.

They hold no data. Names of assets carry a hash of what is in them, so that a browser may keep them.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

SITE = "site"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' {styles}; img-src 'self' data: blob:;"
    " connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_PAGE = {**_SAFE, "cache-control": "no-store"}
_ASSET = {**_SAFE, "cache-control": "public, max-age=31536000, immutable"}


def shell(*framed_styles: str) -> Callable[[Request], Response]:
    """Return the handler of the page. A document that the page hands to a frame is held to the
    page's own policy: the style sheets in such documents are named in it by their hashes."""
    hashes = [b64encode(sha256(style.encode()).digest()).decode() for style in framed_styles]
    policy = PAGE_POLICY.format(styles=" ".join(f"'sha256-{one}'" for one in hashes))
    headers = {**_PAGE, "content-security-policy": policy}

    def answer(request: Request) -> Response:
        index = _built()["index.html"].read_bytes()
        return Response(index, headers=headers, media_type=_TYPES["html"])

    return answer


def asset(request: Request) -> Response:
    """Answer with a file beside the page. Only what was found in the package has a name here."""
    name = f"assets/{request.path_params['name']}"
    found = _built().get(name)
    if found is None:
        return PlainTextResponse("there is no such file\n", 404, headers=_SAFE)
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(found.read_bytes(), headers=_ASSET, media_type=kind)


@cache
def _built() -> dict[str, Traversable]:
    return dict(_walk(files("pilothouse.dashboard") / SITE))


def _walk(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walk(one, f"{above}{one.name}/")
        else:
            yield above + one.name, one
