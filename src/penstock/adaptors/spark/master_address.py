# SPDX-License-Identifier: Apache-2.0
"""Where a pipeline's cluster is: an embedded one, or a running master."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from penstock.errors import ConfigurationError

FIELD = "cluster.master"
KUBERNETES_PREFIX = "k8s://"
STANDALONE_PREFIX = "spark://"
YARN = "yarn"
KNOWN_FORMS = (
    '"embedded" (started and ended by Penstock), "spark://host:port" (several: "spark://h1:p1,h2:p2"), "yarn", '
    '"k8s://https://host:port", "local[n]"'
)
_HOST_PORT = re.compile(r"^(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})$")
_LOCAL = re.compile(r"^local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?$")
_KUBERNETES = re.compile(r"^k8s://(?:https?://)?(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?/?$")


class MasterKind(StrEnum):
    """What kind of cluster provides the executors."""

    EMBEDDED = "embedded"
    STANDALONE = "spark"
    YARN = "yarn"
    KUBERNETES = "k8s"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """A validated master. `url` is the form for Spark; None for the embedded one, known once it runs."""

    kind: MasterKind
    url: str | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a master as the user writes it.

        Raises
        ------
        ConfigurationError
            The text matches none of the known forms. The message names the field and the forms.

        Examples
        --------
        >>> MasterAddress.parse("spark://h:7077").url, MasterAddress.parse("embedded").url
        ('spark://h:7077', None)
        """
        address = text.strip()
        if address == "embedded":
            return cls(MasterKind.EMBEDDED, None)
        if address == YARN:
            return cls(MasterKind.YARN, address)
        if _LOCAL.match(address):
            return cls(MasterKind.LOCAL, address)
        if address.startswith(STANDALONE_PREFIX):
            for place in address.removeprefix(STANDALONE_PREFIX).split(","):
                _check_port(_HOST_PORT.match(place), text)
            return cls(MasterKind.STANDALONE, address)
        if address.startswith(KUBERNETES_PREFIX):
            _check_port(_KUBERNETES.match(address), text)
            return cls(MasterKind.KUBERNETES, address)
        raise ConfigurationError(f"{FIELD}: unknown master {text!r}; known forms: {KNOWN_FORMS}", field=FIELD)


def _check_port(match: re.Match[str] | None, text: str) -> None:
    if match is None:
        raise ConfigurationError(
            f"{FIELD}: cannot read host and port in {text!r}; known forms: {KNOWN_FORMS}", field=FIELD
        )
    if match["port"] is not None and not 1 <= int(match["port"]) <= 65535:
        raise ConfigurationError(
            f"{FIELD}: port {match['port']} in {text!r} is not a port; give one from 1 to 65535", field=FIELD
        )
