# SPDX-License-Identifier: Apache-2.0
"""Secrets among settings: taken from the environment, and hidden in what is written down."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

from pydantic import FieldSerializationInfo

from penstock.secrets import shown

WITH_SECRETS = {"secrets": True}
"""The context of a dump that is read again, not shown."""

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def written(options: dict[str, str], info: FieldSerializationInfo) -> dict[str, str]:
    """Options as they are written down: settings are kept with a run and shown in its report."""
    if info.context == WITH_SECRETS:
        return options
    return {name: shown(name, value) for name, value in options.items()}


def from_environment(text: str) -> str:
    """Put variables of the environment in place of ``${NAME}``; ValueError where there is none of that name."""
    return _VARIABLE.sub(lambda found: _variable(found[1]), text)


def address_from_environment(text: str) -> str:
    """The same for an address: what is only a part of it, such as a password, may hold any character."""
    whole = _VARIABLE.fullmatch(text)
    if whole is not None:
        return _variable(whole[1])
    return _VARIABLE.sub(lambda found: quote(_variable(found[1]), safe=""), text)


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise ValueError(f"${{{name}}}: the environment has no variable {name}; set it") from None
