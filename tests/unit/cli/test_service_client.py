# SPDX-License-Identifier: Apache-2.0
"""What commands say when they ask a service that is encrypted, or gone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.adaptors.agent.master_address import CA_VARIABLE
from penstock.cli.failures import Failure, WrongInput
from penstock.cli.service_client import RunService
from penstock.service.access import Access
from penstock.service.address_file import ServiceAddress
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.server import Server, Site


def test_the_certificate_of_a_service_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the certificates that the environment names; without, the failure says how to name them."""
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", certificate,
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    access, feed = Access(), EventFeed()
    site = Site(certificate=certificate, key=key)
    with Server(make_application(Service((), access, feed), hosts=site.names), site, feed) as server:
        asked = RunService(ServiceAddress(server.address, access.read_token))
        monkeypatch.delenv(CA_VARIABLE, raising=False)
        with pytest.raises(Failure, match=f"cannot be checked .*name the PEM file to check it with by {CA_VARIABLE}"):
            asked.get("pipelines")
        monkeypatch.setenv(CA_VARIABLE, str(tmp_path / "none.pem"))
        with pytest.raises(WrongInput, match="cannot be read"):
            asked.get("pipelines")
        monkeypatch.setenv(CA_VARIABLE, str(certificate))
        assert asked.get("pipelines")["pipelines"] == []


@pytest.mark.parametrize(("is_master", "word"), [(False, "has the run ended"), (True, "Another master")])
def test_a_service_that_is_gone_is_said_to_be(is_master: bool, word: str) -> None:
    """Of a master, with the hint that another one takes over."""
    with pytest.raises(Failure, match=word):
        RunService(ServiceAddress("http://127.0.0.1:1", "token"), is_master=is_master).get("pipelines")
