# SPDX-License-Identifier: Apache-2.0
"""Which Spark is installed, for tests of what a newer one brought."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def is_older_than(major: int, minor: int) -> bool:
    """Whether the PySpark that is found first is older; without any it is not."""
    try:
        found = version("pyspark").split(".")
    except PackageNotFoundError:
        return False
    return (int(found[0]), int(found[1])) < (major, minor)
