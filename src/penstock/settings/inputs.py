# SPDX-License-Identifier: Apache-2.0
"""What an operator reads: the arrivals, other operators, or a part of what one of them writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from penstock.settings.fields import Part
from penstock.topology import ARRIVALS


class InputSettings(Part):
    """One stream into an operator, where it carries only a part of the records; else its name is enough."""

    source: str = Field(alias="from", description="`arrivals`, or the name of an operator above")
    selectivity: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="the part of the records that this stream carries; streams of 0.3 and 0.7 out of one operator "
        "split its records",
    )


def _inputs(value: Any) -> Any:
    entries = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(entry, (str, Mapping, InputSettings)) for entry in entries):
        raise ValueError("write the name of what it reads, a list of names, or {from: parser, selectivity: 0.3}")
    return [{"from": entry} if isinstance(entry, str) else entry for entry in entries]


Inputs = Annotated[tuple[InputSettings, ...], BeforeValidator(_inputs)]

READS_ARRIVALS: tuple[InputSettings, ...] = (InputSettings.model_validate({"from": ARRIVALS}),)


def written_inputs(inputs: Sequence[InputSettings]) -> Any:
    """Inputs as people write them: a name where that is all there is to say."""
    entries = [
        entry.source if entry.selectivity == 1.0 else {"from": entry.source, "selectivity": entry.selectivity}
        for entry in inputs
    ]
    return entries[0] if len(entries) == 1 and isinstance(entries[0], str) else entries
