# SPDX-License-Identifier: Apache-2.0
"""Says in one sentence what happens to an operator now, and why."""

from __future__ import annotations

from penstock.records import Decision, Mode, Observation, Quality
from penstock.steering import OperatorSteering, SteeredMode
from penstock.units import format_seconds

_OLD_LOOKS = 5
"""After so many looks without an answer the picture is called old."""
_MOST_NAMED = 3


def why_now(
    seen: Observation | None,
    decision: Decision | None,
    steering: OperatorSteering,
    *,
    now: float,
    interval_seconds: float,
    is_live: bool = True,
    trouble: str | None = None,
) -> str:
    """One sentence about an operator.

    Parameters
    ----------
    seen, decision
        The newest of both.
    steering
        The orders in force.
    now, interval_seconds
        The present, and how often the loop looks.
    is_live
        Whether it runs; the newest picture of a stored run is never old.
    trouble
        Why it could not be looked at last; None: it could.
    """
    sentence = str(steering.held or "") or (f"paused {steering.paused}" if steering.paused else "")
    if not sentence and seen is None:
        sentence = "nothing was seen of it yet" if trouble is None else f"nothing was seen of it yet: {trouble}"
    if not sentence and seen is not None:
        is_old = trouble is not None or (is_live and now - seen.at > max(10.0, _OLD_LOOKS * interval_seconds))
        sentence = _of_old(now - seen.at, trouble) if is_old else _of_picture(seen, decision)
    if steering.mode is SteeredMode.AUTOMATIC or steering.held is not None or steering.paused is not None:
        return sentence
    return f"{steering.mode}{'' if steering.mode_order is None else f' {steering.mode_order}'}; {sentence}"


def _of_old(age_seconds: float, trouble: str | None) -> str:
    heard = f"holding: nothing was heard of it for {format_seconds(age_seconds)}"
    return heard if trouble is None else f"{heard}: {trouble}"


def _of_picture(seen: Observation, decision: Decision | None) -> str:
    if seen.quality is not Quality.GOOD:
        return f"holding: {seen.quality_text}"
    wanted, there = seen.cluster.requested, seen.cluster.observed
    if wanted is not None and (there is None or not there.satisfies(wanted)):
        return f"waiting for {wanted}: {'it is not known what' if there is None else there} is there"
    return "watching: nothing was decided yet" if decision is None else _of_decision(decision)


def _of_decision(decision: Decision) -> str:
    if not decision.is_change:
        held = next((f"{a.guard}: {a.reason}" for a in reversed(decision.amended_by)), decision.reason)
        return held if held.startswith("holding") else f"holding: {held}"
    verb = decision.verb if decision.mode is Mode.ACT else f"recommends to {decision.verb}"
    return f"{verb} to {decision.target}: {decision.reason}"


def why_of_all(sentences: dict[str, str]) -> str:
    """One sentence about a pipeline, from those about its operators."""
    named = [f"{name}: {sentence}" for name, sentence in list(sentences.items())[:_MOST_NAMED]]
    more = len(sentences) - _MOST_NAMED
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])
