# SPDX-License-Identifier: Apache-2.0
"""The certificates of a small cluster, made by openssl: an authority of its own, and what it signs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ClusterError

_DAYS = "30"
_KEY = ("-newkey", "rsa:2048", "-nodes")
"""Spark's client reads no keys on curves in the form in which openssl writes them."""


class Authority:
    """A certificate authority in a folder: ``ca.crt``, ``ca.key``, and ``NAME.crt``, ``NAME.key`` of what it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self._openssl("req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=penstock", "-days",
                      _DAYS)  # fmt: skip

    @property
    def certificate(self) -> Path:
        """What clients trust."""
        return self.folder / "ca.crt"

    def sign(self, name: str, subject: str, addresses: Sequence[str] = (), names: Sequence[str] = ()) -> None:
        """Make a key, and a certificate for servers (at these addresses and names) and clients."""
        others = [*(f"IP:{address}" for address in addresses), *(f"DNS:{text}" for text in names)]
        extensions = "extendedKeyUsage=serverAuth,clientAuth\n"
        if others:
            extensions += f"subjectAltName={','.join(others)}\n"
        (self.folder / f"{name}.ext").write_text(extensions)
        self._openssl("req", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", _DAYS, "-out", f"{name}.crt", "-extfile", f"{name}.ext")  # fmt: skip

    def make_key(self, name: str) -> None:
        """Make a pair of keys, ``NAME.key`` and ``NAME.pub``, to sign the tokens of service accounts."""
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
        self._openssl("ec", "-in", f"{name}.key", "-pubout", "-out", f"{name}.pub")

    def _openssl(self, *arguments: str) -> None:
        try:
            subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, text=True)
        except FileNotFoundError as fault:
            raise ClusterError(
                "the program openssl is missing; install it: apt-get install openssl", target="kubernetes"
            ) from fault
        except subprocess.CalledProcessError as fault:
            raise ClusterError(f"openssl {arguments[0]} failed: {fault.stderr}", target="kubernetes") from fault
