# SPDX-License-Identifier: Apache-2.0
"""Fetches Kafka and Spark's connector for it once, so that no test waits for the network.

That they cannot be fetched is said, and is no failure: the tests that need them are skipped.
"""

from __future__ import annotations

import sys

from penstock.adaptors.kafka.connector import connector_settings
from penstock.adaptors.kafka.distribution import fetch_kafka
from penstock.adaptors.kafka.maven import NotFetchedError


def main() -> None:
    """Fetch both, or say what the repository did not give."""
    try:
        fetch_kafka()
        connector_settings()
    except NotFetchedError as fault:
        print(f"penstock: tests with Kafka will be skipped: {fault}", file=sys.stderr)


if __name__ == "__main__":
    main()
