# SPDX-License-Identifier: Apache-2.0
"""How an agent and a master prove to each other that they know the same token, without ever sending it.

The agent sends a random number; the master answers with one of its own and the HMAC of both under the token; the agent
answers with another HMAC of both. An eavesdropper learns nothing that it could use later. What follows is neither
encrypted nor signed: beyond one machine, TLS has to do that.
"""

from __future__ import annotations

import hmac
import secrets

from penstock.adaptors.agent.wire import PROTOCOL, Accepted, Challenge, Greeting, Introduction, Refusal
from penstock.errors import ConfigurationError

_NONCE_BYTES = 32
LEAST_TOKEN_CHARACTERS = 16
VERSION, TOKEN = "version", "token"
"""Kinds of refusal: another protocol, and a wrong token."""


class HandshakeError(Exception):
    """The far side is not whom it should be, or speaks another protocol; the message says which."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


def checked_token(token: str, field: str) -> bytes:
    """The token as bytes; refuses one that could be guessed."""
    if len(token) < LEAST_TOKEN_CHARACTERS:
        raise ConfigurationError(
            f"{field}: a token of {len(token)} characters can be guessed; give at least {LEAST_TOKEN_CHARACTERS}, such "
            "as the content of the file agent-token that the master wrote",
            field=field,
        )
    return token.encode()


def new_greeting() -> Greeting:
    """The agent's first word."""
    return Greeting(PROTOCOL, secrets.token_bytes(_NONCE_BYTES))


def challenge_to(greeting: Greeting, token: bytes) -> Challenge:
    """The master's answer; raises HandshakeError where the agent speaks another protocol."""
    if greeting.protocol != PROTOCOL:
        raise HandshakeError(other_version(greeting.protocol))
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return Challenge(PROTOCOL, nonce, _proof(token, b"master", greeting.nonce, nonce))


def answer_to(challenge: Challenge, greeting: Greeting, token: bytes) -> bytes:
    """The agent's proof; raises HandshakeError where the master has not proved that it knows the token."""
    if challenge.protocol != PROTOCOL:
        raise HandshakeError(other_version(challenge.protocol))
    if not hmac.compare_digest(challenge.proof, _proof(token, b"master", greeting.nonce, challenge.nonce)):
        raise HandshakeError(Refusal(TOKEN, "the master does not know the token; give the agent that of this master"))
    return _proof(token, b"agent", greeting.nonce, challenge.nonce)


def check_answer(introduction: Introduction, greeting: Greeting, challenge: Challenge, token: bytes) -> None:
    """Raise HandshakeError where the agent has not proved that it knows the token."""
    if not hmac.compare_digest(introduction.proof, _proof(token, b"agent", greeting.nonce, challenge.nonce)):
        raise HandshakeError(Refusal(TOKEN, "the token is wrong; give the agent that of this master"))


def other_version(protocol: int) -> Refusal:
    """The refusal of another protocol."""
    return Refusal(
        VERSION, f"protocol {protocol} is not {PROTOCOL}; run the same version of Penstock on both sides"
    )  # fmt: skip


def _proof(token: bytes, role: bytes, agents: bytes, masters: bytes) -> bytes:
    return hmac.digest(token, b"penstock|%d|%s|%s|%s" % (PROTOCOL, role, agents, masters), "sha256")


__all__ = [
    "TOKEN", "VERSION", "Accepted", "HandshakeError", "answer_to", "challenge_to", "check_answer", "checked_token",
    "new_greeting", "other_version",
]  # fmt: skip
