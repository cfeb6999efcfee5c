# SPDX-License-Identifier: Apache-2.0
"""Hides secrets in what is stored and shown: by the name of an option, and by how a value looks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_SECRET_WORDS = (
    "password", "passwd", "passphrase", "pwd", "jaas", "secret", "token", "credential", "apikey", "accesskey",
    "accountkey", "privatekey", "sharedkey", "authkey", "keystorekey", "keypem", "authuserinfo", "connectionstring",
    "sharedaccess", "authorization", "bearer", "cookie",
)  # fmt: skip
"""Looked for in a name without its dots, dashes and underscores."""
_BETWEEN_WORDS = re.compile(r"[^a-z0-9]")

_IN_VALUES = (
    # amqp://user:password@host, jdbc:postgresql://user:password@host
    (re.compile(r"(://[^:/@\s]*):[^/\s]*@"), rf"\1:{HIDDEN}@"),
    # AccountKey=...; in a connection string, ?sig=... of a signed address, password=... of a JDBC address
    (
        re.compile(
            r"(?i)\b((?:[\w.-]*(?:password|passwd|pwd|secret|token|api[_-]?key|accountkey|sharedaccess(?:key|signature)))"
            r"|sig)(\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^;&\s,]+)"
        ),
        rf"\1\2{HIDDEN}",
    ),
    # Authorization: Bearer ..., in a header that somebody wrote into a value
    (re.compile(r"(?i)\b(bearer\s+|authorization\s*[:=]\s*(?:\w+\s+)?)[\w.~+/-]{8,}=*"), rf"\1{HIDDEN}"),
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        HIDDEN,
    ),
)  # fmt: skip


def is_secret(name: str) -> bool:
    """Whether the option called `name` holds a secret.

    Examples
    --------
    >>> is_secret("sasl.password"), is_secret("spark.ssl.keyPassword"), is_secret("sasl.username")
    (True, True, False)
    >>> is_secret("api_key"), is_secret("fs.azure.account.key.mine.dfs.core.windows.net"), is_secret("key.column")
    (True, True, False)
    """
    plain = _BETWEEN_WORDS.sub("", name.lower())
    return any(word in plain for word in _SECRET_WORDS)


def without_secrets(text: str) -> str:
    """Return a text with the secrets in it hidden: passwords in addresses, keys in connection strings, PEM keys.

    Examples
    --------
    >>> without_secrets("amqp://ada:abra@host:5672/")
    'amqp://ada:***@host:5672/'
    >>> without_secrets("AccountName=mine;AccountKey=Zm9v==;EndpointSuffix=x")
    'AccountName=mine;AccountKey=***;EndpointSuffix=x'
    """
    for pattern, shown in _IN_VALUES:
        text = pattern.sub(shown, text)
    return text


def shown(name: str, value: Any) -> Any:
    """Return the value of the option called `name` as it may be stored and shown, however deep its secrets lie."""
    if is_secret(name) and value is not None and not isinstance(value, (bool, Mapping, list, tuple)):
        return HIDDEN
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {key: shown(str(key), inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(name, inner) for inner in value]
    return value
