# SPDX-License-Identifier: Apache-2.0
"""Decides which options are hidden in output."""

from __future__ import annotations

_SECRET_WORDS = ("password", "jaas", "secret", "token", "keystore.key")


def is_secret(name: str) -> bool:
    """Whether the option called `name` holds a secret.

    Examples
    --------
    >>> is_secret("sasl.password"), is_secret("spark.ssl.keyPassword"), is_secret("sasl.username")
    (True, True, False)
    """
    return any(word in name.lower() for word in _SECRET_WORDS)
