# SPDX-License-Identifier: Apache-2.0
"""Where the list of releases is: where the Ivy that fetches them has Maven Central."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from penstock.adaptors.kafka.maven import NotFetchedError
from penstock.adaptors.kafka.maven_releases import central

RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"


def ivy(folder: Path, constants: bytes, name: str = RESOLVER) -> Path:
    """A jar with one class, whose constants these are."""
    path = folder / "ivy-2.5.3.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(name, constants)
    return path


def test_the_address_is_that_of_ivy(tmp_path: Path) -> None:
    """Other addresses of the class are passed over."""
    constants = b"\x01\x00\x20https://old.example/maven/\x01\x00\x20https://central.example/maven2/\x01\x00\x04name"
    assert central(ivy(tmp_path, constants)) == "https://central.example/maven2/"


@pytest.mark.parametrize("name", [RESOLVER, "org/apache/ivy/Other.class"])
def test_an_ivy_that_does_not_say_is_named(tmp_path: Path, name: str) -> None:
    """Whoever reads the error sees which file it is about."""
    with pytest.raises(NotFetchedError, match=r"ivy-2\.5\.3\.jar"):
        central(ivy(tmp_path, b"\x01\x00\x04name", name))
