# SPDX-License-Identifier: Apache-2.0
"""Which releases of an artifact Maven Central has, by the list that it keeps of each.

Where Maven Central is, Ivy knows, which fetches from it: the address is a constant of its class for repositories.
https://maven.apache.org/repositories/metadata.html
"""

from __future__ import annotations

import http.client
import re
import urllib.request
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from penstock.adaptors.kafka.maven import NotFetchedError, ivy_jar
from penstock.adaptors.spark.installation import SparkInstallation

_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_ADDRESS = re.compile(rb"https://[\w./-]+/maven2/")
_TIMEOUT_SECONDS = 60.0
_LARGEST_LIST_BYTES = 1 << 20
_RELEASE = re.compile(r"\d+(\.\d+)*")


def releases(group: str, artifact: str) -> list[str]:
    """Return the versions of an artifact that are there.

    Raises
    ------
    NotFetchedError
        The list cannot be had.
    """
    root = central(ivy_jar(SparkInstallation.find()))
    url = f"{root}{group.replace('.', '/')}/{artifact}/maven-metadata.xml"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as reply:
            return versions_in(reply.read(_LARGEST_LIST_BYTES))
    except (OSError, http.client.HTTPException, ElementTree.ParseError) as fault:
        raise NotFetchedError(f"{url}: cannot be read: {fault}", ()) from fault


def central(ivy: Path) -> str:
    """Return the address that an Ivy has for Maven Central.

    Raises
    ------
    NotFetchedError
        This Ivy has none.
    """
    try:
        with zipfile.ZipFile(ivy) as jar:
            found = _ADDRESS.search(jar.read(_RESOLVER))
    except (OSError, KeyError, zipfile.BadZipFile) as fault:
        raise NotFetchedError(f"{ivy}: cannot be read: {fault!r}", ()) from fault
    if found is None:
        raise NotFetchedError(f"{ivy}: does not say where Maven Central is", ())
    return found[0].decode()


def versions_in(metadata: bytes) -> list[str]:
    """Return the versions in a list of Maven's.

    Examples
    --------
    >>> versions_in(b"<metadata><versioning><versions><version>4.0.0</version></versions></versioning></metadata>")
    ['4.0.0']
    """
    return [found.text or "" for found in ElementTree.fromstring(metadata).iter("version")]


def newest_up_to(version: str, there: Iterable[str]) -> str | None:
    """Return the newest release that is not newer than `version` and of the same major version; None: there is none.

    Previews are left out.

    Examples
    --------
    >>> newest_up_to("4.1.4", ["4.0.0", "4.1.3", "4.1.10", "4.1.4-preview1", "4.2.0"])
    '4.1.3'
    """
    limit = _numbers(version)
    fitting = [one for one in there if _RELEASE.fullmatch(one) and _numbers(one)[0] == limit[0]]
    return max((one for one in fitting if _numbers(one) <= limit), key=_numbers, default=None)


def _numbers(version: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", version)] or [0]
