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
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LAST_WORDS = frozenset({"pass", "auth", "passcode"})
"""Say what an option is where they come last: `auth.login.retry` and `passes` are no secrets, `redis.auth` is one."""
_BEFORE_PASS = r"(?:db|pg|user|login|auth|smtp|mail|ftp|admin|root|my|key|store|keystore|truststore)"
_JOINED_PASS = re.compile(rf"{_BEFORE_PASS}pass")
_OF_SECRET_KEYS = frozenset({
    "ssl", "tls", "client", "server", "signing", "signature", "encryption", "decryption", "master", "storage", "ssh",
    "rsa", "cert", "certificate", "hmac", "aes",
})  # fmt: skip
"""Before a last word `key`: `ssl.key` is a secret, `partition.key` is not."""

_VALUE = (
    r"(?:\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    # Without quotes it may hold blanks: up to what looks like the next name, or to the end.
    r"|(?:(?![,\s]{1,8}\\{0,4}[\"']?[\w.-]{1,100}\\{0,4}[\"']?\s{0,8}[=:])[^;&\n])+)"
)
_SECRET_NAMES = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret(?:[._-]?(?:access[._-]?)?key)?|token"
    r"|(?:api|access|account|private)[._-]?key|sharedaccess(?:key|signature))"
)

_IN_VALUES = (
    # amqp://user:password@host, jdbc:postgresql://user:password@host; a port is no password
    (re.compile(r"(://[^:/@\s\[]*):(?!\d{1,5}(?:[/?#,;\s]|$))(?:(?!://)\S)*@"), rf"\1:{HIDDEN}@"),
    # AccountKey=...; in a connection string, password=... of a JDBC address, password: ... in YAML or JSON
    (re.compile(rf"(?i)({_SECRET_NAMES}\\{{0,4}}[\"']?\s{{0,8}}(?:=|:(?!:|//))[ \t]{{0,8}}){_VALUE}"), rf"\1{HIDDEN}"),
    # ?sig=... of a signed address, pass=... and auth=...: the whole name or its last part
    (re.compile(rf"(?i)((?<![a-z0-9])(?:sig|{_BEFORE_PASS}?pass|auth)\s{{0,8}}=[ \t]{{0,8}}){_VALUE}"), rf"\1{HIDDEN}"),
    # The same with a colon, where it cannot be a sentence
    (
        re.compile(
            r"(?im)((?:^|[,{;])\s{0,8}[\"']?(?:[\w-]{1,100}[._-])?(?:pass|auth)[\"']?\s{0,8}:[ \t]{1,8})" + _VALUE
        ),
        rf"\1{HIDDEN}",
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
    >>> is_secret("es.net.http.auth.pass"), is_secret("ssl.key"), is_secret("key.deserializer"), is_secret("bypass")
    (True, True, False, False)
    """
    plain = _BETWEEN_WORDS.sub("", name.lower())
    if any(word in plain for word in _SECRET_WORDS):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[-1] == "key":
        return len(words) > 1 and words[-2] in _OF_SECRET_KEYS
    return words[-1] in _LAST_WORDS or _JOINED_PASS.fullmatch(words[-1]) is not None


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
