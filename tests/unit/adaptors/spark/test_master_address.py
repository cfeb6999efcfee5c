# SPDX-License-Identifier: Apache-2.0
"""Master addresses as users write them."""

from __future__ import annotations

import pytest

from penstock.adaptors.spark.cluster import MasterAddress, MasterKind
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "kind", "url"),
    [
        ("embedded", MasterKind.EMBEDDED, None),
        ("spark://h:7077", MasterKind.STANDALONE, "spark://h:7077"),
        ("spark://a:1,b.example:65535", MasterKind.STANDALONE, "spark://a:1,b.example:65535"),
        ("spark://[::1]:7077", MasterKind.STANDALONE, "spark://[::1]:7077"),
        (" yarn ", MasterKind.YARN, "yarn"),
        ("k8s://https://api.example:6443", MasterKind.KUBERNETES, "k8s://https://api.example:6443"),
        ("k8s://api", MasterKind.KUBERNETES, "k8s://api"),
        ("local", MasterKind.LOCAL, "local"),
        ("local[2]", MasterKind.LOCAL, "local[2]"),
        ("local[*]", MasterKind.LOCAL, "local[*]"),
        ("local[*,4]", MasterKind.LOCAL, "local[*,4]"),
    ],
)
def test_known_forms_are_read(text: str, kind: MasterKind, url: str | None) -> None:
    """Each known form gives its kind and the address Spark takes."""
    address = MasterAddress.parse(text)
    assert (address.kind, address.url) == (kind, url)


@pytest.mark.parametrize(
    "text",
    ["", "mesos://h:5050", "spark://", "spark://h", "spark://h:0", "spark://h:70770", "spark://h:7077,", "h:7077",
     "spark://h 1:7077", "k8s://", "k8s://ftp://h:1", "k8s://https://h:99999", "local[0]", "local[]", "local[two]",
     "Embedded", "yarn-client"],
)  # fmt: skip
def test_anything_else_is_refused_by_the_fields_name(text: str) -> None:
    """An unknown or broken form names the field and what is wrong with it."""
    with pytest.raises(ConfigurationError, match=r"^cluster\.master: ") as caught:
        MasterAddress.parse(text)
    assert caught.value.field == "cluster.master"


def test_an_unknown_form_lists_the_known_ones() -> None:
    """The message helps with the forms that are known."""
    with pytest.raises(ConfigurationError) as caught:
        MasterAddress.parse("mesos://h:5050")
    for form in ("embedded", "spark://host:port", "yarn", "k8s://", "local[n]"):
        assert form in str(caught.value)
