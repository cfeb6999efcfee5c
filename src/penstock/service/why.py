# SPDX-License-Identifier: Apache-2.0
"""Says in one sentence what happens to an operator now, and why."""

from __future__ import annotations

from penstock.records import Decision, Mode, Observation, Quality
from penstock.service.last_changes import FailedChange
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
    failed: FailedChange | None = None,
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
    failed
        Its last change, if that has failed.
    """
    if steering.held is not None:
        is_of_order = failed is not None and failed.action.at >= steering.held.order.at
        again = _after(failed, "it is asked for again with the next decision") if is_of_order else ""
        return f"{steering.held}{again}"
    if steering.paused is not None:
        return f"paused {steering.paused}{_after(failed, 'nothing is asked for until somebody resumes')}"
    if seen is None:
        sentence = "nothing was seen of it yet" if trouble is None else f"nothing was seen of it yet: {trouble}"
    elif trouble is not None or (is_live and now - seen.at > max(10.0, _OLD_LOOKS * interval_seconds)):
        sentence = _of_old(now - seen.at, trouble)
    else:
        sentence = (
            _of_picture(seen, decision) if failed is None else _of_failed(failed, seen, decision, is_live=is_live)
        )
    if steering.mode is SteeredMode.AUTOMATIC:
        return sentence
    return f"{steering.mode}{'' if steering.mode_order is None else f' {steering.mode_order}'}; {sentence}"


def _after(failed: FailedChange | None, what_next: str) -> str:
    return "" if failed is None else f"; {failed}; {what_next}"


def _of_old(age_seconds: float, trouble: str | None) -> str:
    heard = f"holding: nothing was heard of it for {format_seconds(age_seconds)}"
    return heard if trouble is None else f"{heard}: {trouble}"


def _of_failed(failed: FailedChange, seen: Observation, decision: Decision | None, *, is_live: bool) -> str:
    """What failed, and what is done now: as decided since, or the policy decides anew from what is there."""
    if seen.quality is not Quality.GOOD:
        return f"{failed}; now holding: {seen.quality_text}"
    is_other = decision is not None and decision.decision_id != failed.action.decision_id
    if decision is not None and is_other and decision.at >= failed.outcome.at:
        return f"{failed}; now {_of_decision(decision)}"
    if not is_live:
        return str(failed)
    there = seen.cluster.observed
    return f"{failed}; next the policy decides from {'what is there' if there is None else f'{there}, which is there'}"


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
