# SPDX-License-Identifier: Apache-2.0
"""Who may do what: two tokens, one to look and one to steer as well."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a token allows."""

    READ = "read"
    OPERATE = "operate"


def _new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Access:
    """The tokens of a service; they are random. Masters of one folder share theirs, others are new at each start.

    Attributes
    ----------
    read_token, operate_token
        The tokens of both roles; None: nobody has that role.
    """

    read_token: str = field(default_factory=_new_token, repr=False)
    operate_token: str | None = field(default_factory=_new_token, repr=False)

    def role_of(self, authorization: str | None) -> Role | None:
        """The role of a request by its header ``Authorization``; None: it has none.

        The time that it takes says nothing about the tokens.
        """
        scheme, _, given = (authorization or "").partition(" ")
        token = given.strip().encode() if scheme.lower() == "bearer" else b""
        may_read = secrets.compare_digest(token, self.read_token.encode())
        may_operate = secrets.compare_digest(token, (self.operate_token or "").encode()) and bool(self.operate_token)
        if not token:
            return None
        return Role.OPERATE if may_operate else Role.READ if may_read else None
