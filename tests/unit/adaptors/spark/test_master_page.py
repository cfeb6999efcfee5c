# SPDX-License-Identifier: Apache-2.0
"""The page of a standalone master, from a server that is made up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock.adaptors.spark import master_page
from penstock.adaptors.spark.master_page import alive_workers, read_page
from penstock.errors import ClusterError

PAGE = json.dumps({"workers": [{"host": "a", "port": 7, "state": "ALIVE"}], "status": "ALIVE"}).encode()


class Page(BaseHTTPRequestHandler):
    """Gives the page to whoever asks."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """Where the page is."""
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_workers_are_read(address: str) -> None:
    """Those that are alive."""
    assert alive_workers(read_page(address)) == {"a": 7}


def test_a_page_without_end_is_cut_off(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than any master's page is no such page, and does not fill the memory."""
    monkeypatch.setattr(master_page, "LARGEST_PAGE_BYTES", len(PAGE) - 1)
    with pytest.raises(ClusterError, match=r"cannot be read: .*; give the web page of the standalone master"):
        read_page(address)
