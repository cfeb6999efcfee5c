# SPDX-License-Identifier: Apache-2.0
"""The keys by which programs log in."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.adaptors.kubernetes_server.certificates import Authority


def test_a_key_is_one_that_sparks_client_reads(tmp_path: Path) -> None:
    """It is an RSA key: of a key on a curve in this form, Spark's client says "Invalid DER: object is not integer"."""
    authority = Authority(tmp_path / "keys")
    authority.sign("admin", "/O=system:masters/CN=admin")
    words = ["openssl", "rsa", "-in", str(authority.folder / "admin.key"), "-check", "-noout"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "RSA key ok"), done.stderr
    words = ["openssl", "verify", "-CAfile", str(authority.certificate), str(authority.folder / "admin.crt")]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
