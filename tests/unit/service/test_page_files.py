# SPDX-License-Identifier: Apache-2.0
"""The page's files: types, caching, what they may load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from penstock.service.page_files import INDEX, page_router, read_page


@pytest.fixture
def client() -> Iterator[TestClient]:
    """The page alone, without the API."""
    app = FastAPI()
    app.include_router(page_router())
    with TestClient(app) as ready:
        yield ready


def test_the_page_is_at_the_root(client: TestClient) -> None:
    """The page itself is at the root, as HTML."""
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Penstock</title>" in answer.text


@pytest.mark.parametrize("name", sorted(read_page()))
def test_every_file_has_its_type_and_the_headers_that_protect_it(client: TestClient, name: str) -> None:
    """Scripts are sent as scripts, and nothing may be framed, sniffed or loaded from elsewhere."""
    answer = client.get(f"/page/{name}")
    kinds = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    assert answer.status_code == 200
    assert answer.headers["content-type"].split(";")[0] == kinds[PurePosixPath(name).suffix]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    """A request with the ETag of the file is answered without a body."""
    first = client.get("/page/main.js")
    again = client.get("/page/main.js", headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert again.status_code == 304
    assert again.content == b""
    assert client.get("/page/main.js", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("name", ["missing.js", "..%2Fpage_files.py", "__init__.py"])
def test_nothing_but_the_page_is_served(client: TestClient, name: str) -> None:
    """A name that is no file of the page is not found, whatever it points to."""
    assert client.get(f"/page/{name}").status_code == 404


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() -> None:
    """No file names another host, and the page has no inline script, style or listener."""
    files = {name: file.body.decode() for name, file in read_page().items()}
    for name, text in files.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, f"{name} names {addresses}"
    page = files[INDEX]
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)


def test_every_script_that_is_imported_is_there() -> None:
    """Each module that a script imports, and each file that the page names, is part of the package."""
    files = read_page()
    for name, file in files.items():
        for imported in re.findall(r'from "\./([^"]+)"', file.body.decode()):
            assert imported in files, f"{name} imports {imported}"
    for named in re.findall(r'(?:href|src)="page/([^"]+)"', files[INDEX].body.decode()):
        assert named in files


def test_every_file_begins_with_its_licence() -> None:
    """Every file of the page carries the SPDX identifier in its first lines."""
    for name, file in read_page().items():
        head = b"\n".join(file.body.splitlines()[:2])
        assert b"SPDX-License-Identifier: Apache-2.0" in head, name
