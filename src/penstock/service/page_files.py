# SPDX-License-Identifier: Apache-2.0
"""Serves the page: its files are part of the package, and a browser needs nothing from anywhere else.

The page needs no token, because it holds no data: whoever opens it must still show one to the HTTP API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath

from fastapi import APIRouter, Request, Response

# Not the module `mimetypes`: it asks the machine, and a browser refuses a script of a wrong type.
CONTENT_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# The page runs its own scripts alone, talks to its own host alone, and stands in no frame: text from a pipeline
# (names, reasons, faults) could do nothing even if it became markup.
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept, but asked for again each time: after an upgrade no old script may meet the new API.
    "Cache-Control": "no-cache",
}

INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, ready to be sent.

    Attributes
    ----------
    body
        What is in it.
    content_type
        What it is.
    etag
        Changes when, and only when, the file does.
    """

    body: bytes
    content_type: str
    etag: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every answer with this file."""
        return {**SECURITY_HEADERS, "ETag": self.etag}


def read_page() -> dict[str, PageFile]:
    """Every file of the page, by its name."""
    files = {}
    for entry in resources.files("penstock.service").joinpath("page").iterdir():
        content_type = CONTENT_TYPES.get(PurePosixPath(entry.name).suffix)
        if content_type is not None:
            body = entry.read_bytes()
            files[entry.name] = PageFile(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return files


def page_router() -> APIRouter:
    """The page at ``/`` and its scripts and styles below ``/page/``."""
    router = APIRouter(include_in_schema=False)
    files = read_page()

    def answer(request: Request, name: str) -> Response:
        file = files.get(name)
        if file is None:
            return Response(status_code=404, headers=dict(SECURITY_HEADERS))
        known = {tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")}
        if file.etag in known or "*" in known:
            return Response(status_code=304, headers=file.headers)
        return Response(file.body, media_type=file.content_type, headers=file.headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return answer(request, INDEX)

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def part(request: Request, name: str) -> Response:
        return answer(request, name)

    return router
