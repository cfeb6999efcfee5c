# SPDX-License-Identifier: Apache-2.0
"""What an operator in Spark's real-time mode may not have, looked for in the plain data of a settings file.

The floor of cores is not part of this: it needs to know the topic (`running.real_time_floor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.settings.plain import plain_inputs, plain_operators

REALTIME = "realtime"
"""The trigger of an operator whose records go through one by one."""


def is_realtime(trigger: object) -> bool:
    """Whether a trigger, as it stands in a file, is the real-time one."""
    return isinstance(trigger, str) and trigger.strip().lower() == REALTIME


def real_time_faults(data: object) -> list[str]:
    """Every mistake about real-time operators, each with its path in the file and what to do."""
    faults: list[str] = []
    known = plain_operators(data)
    broker = data.get("broker") if isinstance(data, Mapping) else None
    has_topics = broker is not None and not (isinstance(broker, Mapping) and broker.get("rabbitmq") is not None)
    real_time = [o.get("name") for _, o in known if is_realtime(o.get("trigger"))]
    for i, operator in known:
        where = f"operators.{i}"
        if is_realtime(operator.get("trigger")):
            faults += _of_operator(where, operator, has_topics=has_topics)
        elif operator.get("checkpoint_every") is not None:
            faults.append(
                f"{where}.checkpoint_every: is for `trigger: realtime`; leave it out, or set that trigger "
                "(a micro-batch is a checkpoint by itself)"
            )
        faults += [
            f"{where}.input: {source!r} runs in real-time mode, and its records cannot be followed "
            "on from there yet; read from another operator, or give that one a trigger interval"
            for source, _ in plain_inputs(operator) or ()
            if source in real_time
        ]
    return faults


def _of_operator(where: str, operator: Mapping[str, Any], *, has_topics: bool) -> list[str]:
    faults = []
    if not has_topics:
        faults.append(
            f"{where}.trigger: realtime reads and writes topics; give `broker` with Kafka, such as "
            "{servers: embedded}, or use a trigger interval"
        )
    if operator.get("unique"):
        faults.append(
            f"{where}.unique: real-time mode cannot drop copies; leave it out and let who reads the result drop them, "
            "or use a trigger interval"
        )
    options = operator.get("input_options")
    for name in options if isinstance(options, Mapping) else ():
        if str(name).lower() in ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"):
            faults.append(f"{where}.input_options.{name}: a real-time batch has no limit of records; leave it out")
    return faults
