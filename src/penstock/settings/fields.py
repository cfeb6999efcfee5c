# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that settings are made of, each with the words for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from penstock.errors import ConfigurationError
from penstock.records import Limits
from penstock.settings.real_time import REALTIME, is_realtime
from penstock.units import parse_bytes, parse_seconds

_NAME = re.compile(r"^[a-z][a-z0-9_-]{0,39}\Z")
_SMALLEST_HEAP_BYTES = 471_859_200  # what Spark refuses to start below
_APP = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def _name(value: str) -> str:
    if not _NAME.match(value):
        raise ValueError("use up to 40 small letters, digits, '-' and '_', beginning with a letter")
    return value


def _app(value: str) -> str:
    if not _APP.match(value):
        raise ValueError('write it as "module:function", such as "penstock.apps.log_analysis:log_analysis"')
    return value


def _topic(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
        raise ValueError("use up to 249 letters, digits, '.', '_' and '-'")
    return value


def _exchange(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,200}", value):
        raise ValueError("use up to 200 letters, digits, '.', '_', ':' and '-'")
    return value


def _size(value: Any) -> str:
    if parse_bytes(value) < _SMALLEST_HEAP_BYTES:
        raise ValueError('too small: Spark needs at least 471 MB; write it like "600m"')
    if not re.fullmatch(r"\d+[kmg]b?", str(value).lower()):
        raise ValueError('write a whole number and a unit, such as "1536m"')
    return str(value)


def _text_options(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError("write names and values, such as {name: value}")
    return {str(k): str(v) for k, v in (value or {}).items()}


def _column_names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _executors(value: tuple[int, int]) -> tuple[int, int]:
    said_of("executors", lambda: Limits(*value))
    return value


def _cpu_shares(value: tuple[float, ...]) -> tuple[float, ...]:
    said_of("cpu_shares", lambda: Limits(cpu_shares=value))
    return value


def said_of(field: str, check: Callable[[], object]) -> None:
    """Leave the field's name out of what is wrong with it: the file's path to it says that already."""
    try:
        check()
    except ConfigurationError as fault:
        raise ValueError(str(fault).removeprefix(f"{field}: ")) from None


def _trigger(value: Any) -> float | str:
    if is_realtime(value):
        return REALTIME
    try:
        return parse_seconds(value)
    except ConfigurationError:
        raise ValueError('write an interval such as "2s", or realtime') from None


Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Trigger = Annotated[float | str, BeforeValidator(_trigger)]
Name = Annotated[str, AfterValidator(_name)]
TopicName = Annotated[str, AfterValidator(_topic)]
ExchangeName = Annotated[str, AfterValidator(_exchange)]
AppPath = Annotated[str, AfterValidator(_app)]
Size = Annotated[str, BeforeValidator(_size)]
TextOptions = Annotated[dict[str, str], BeforeValidator(_text_options)]
ColumnNames = Annotated[tuple[str, ...], BeforeValidator(_column_names)]
Executors = Annotated[tuple[int, int], AfterValidator(_executors)]
CpuShares = Annotated[tuple[float, ...], AfterValidator(_cpu_shares)]


class Part(BaseModel):
    """A part of the settings: what it does not know is refused, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    @classmethod
    def setting_names(cls) -> list[str]:
        """What may be written in it."""
        return [field.alias or name for name, field in cls.model_fields.items()]
