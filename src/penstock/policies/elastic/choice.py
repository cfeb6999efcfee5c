# SPDX-License-Identifier: Apache-2.0
"""The cheapest allocation that keeps up, and why no other.

An allocation is *enough* for a while if what waits stays so little that its lower end works it off within a part of the
catch-up time (the patience). It *catches up* if its lower end covers the arrivals and works off what waits within the
catch-up time. What is enough is kept: records that wait a little cost nothing, and use capacity that would stand idle.
What is not enough is left, in one step, for the cheapest that catches up, or that covers the arrivals and stays enough
for as long as the catch-up time once it is there. The latter lets records wait on, each no longer than it may: to work
off at once what may wait takes executors that are idle afterwards.

Less is taken where it saves more than it costs: what waits at its end has to be worked off later, the changes there and
back are paid for, and the change itself keeps records waiting. It has to cover the arrivals, as far as is expected, and
the last change has to have shown what it does: a batch has run under it from its start to its end.
Less than they are would do while records may wait; but then more is needed again for certain, and executors that come
back begin anew. So that is done only where they hardly change, and it will be long until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.plan.ladder import direction, ladder, nearest
from penstock.policies.elastic.capacity import Sustained
from penstock.policies.elastic.load import LONGEST_SECONDS, Load
from penstock.records import Allocation, Limits, Rejected
from penstock.units import format_count, format_seconds

_LEAST_ALLOWED_SECONDS = 2.0
"""Records that waited no longer than this waited for their batch."""
_LEAST_GAIN = 0.3
"""Part of what a smaller allocation saves that has to be left when its price is paid."""
_LONG = 5.0
"""For so many catch-up times less than what arrives has to be enough, to be taken."""
_LESS_THAN_FAILED = 0.85
"""What may arrive, as a part of what an allocation was not enough for, before that is taken again."""
_MORE_STILL = 1.3
"""By how much more must be needed than when more was asked for, to ask again before that can have helped."""
_UNPROVEN = 0.5
"""The least part of the capacity that is gone to in one step, where nothing so small was measured."""
_FLAT = 0.98
"""Allocations expected to sustain this part of the most there is do as well; the cheapest of them is taken."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is asked of an allocation.

    Attributes
    ----------
    catch_up_seconds
        Within what a backlog has to be gone.
    patience
        Part of that time which records may wait before capacity is added.
    ahead_seconds
        How long until a change that the next plan makes is in force: for so long an allocation has to be enough.
    coming_for
        What was needed when more was asked for that cannot have helped yet; None: nothing is on its way.
    pause_seconds
        For how long a change to less does nothing for the records that wait.
    is_unseen
        Whether records are in work, and no batch has run from its start to its end under what there is now.
    """

    catch_up_seconds: float
    patience: float
    ahead_seconds: float
    coming_for: float | None = None
    pause_seconds: float = 0.0
    is_unseen: bool = False

    @property
    def allowed_seconds(self) -> float:
        """For how long records may wait."""
        return self.patience * self.catch_up_seconds


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, why, and why not the others."""

    target: Allocation
    reason: str
    rejected: tuple[Rejected, ...] = ()


class Chooser:
    """Chooses for one operator at one instant.

    Parameters
    ----------
    limits, current
        What it may have, and has.
    load, aim
        What it has to do, and what is asked.
    sustained
        What an allocation sustains.
    change_cost
        What a change costs, in executor seconds.
    usual_dwell
        For how many seconds, lately, no more than an allocation was enough; None: not known.
    failed_rate
        The arrival rate for which an allocation was not enough, lately; None: none is known.
    """

    def __init__(
        self,
        limits: Limits,
        current: Allocation,
        load: Load,
        aim: Aim,
        *,
        sustained: Callable[[Allocation], Sustained],
        change_cost: Callable[[Allocation, Allocation], float],
        usual_dwell: Callable[[Allocation], float | None],
        failed_rate: Callable[[Allocation], float | None],
    ) -> None:
        self._limits, self._load, self._aim, self._change_cost = limits, load, aim, change_cost
        self._usual_dwell, self._failed_rate = usual_dwell, failed_rate
        self._here = nearest(limits, current)
        rungs = ladder(limits, self._here.size)
        self._rungs = rungs if self._here in rungs else tuple(sorted((*rungs, self._here), key=lambda a: a.capacity))
        self._sustained = {rung: sustained(rung) for rung in self._rungs}
        self._rate = load.rate_in(aim.ahead_seconds)
        self.needed = max(self._rate, load.rate) + load.waiting / aim.catch_up_seconds
        """Records a second that keep up with the arrivals and work off what waits in time."""

    def choose(self) -> Choice:
        """The allocation, with its reason."""
        here = self._sustained[self._here]
        if self._is_enough(self._here):
            return self._less()
        return self._more(here)

    def _is_enough(self, rung: Allocation) -> bool:
        low = self._sustained[rung].low
        lasts, _ = self._load.lasts(low, self._aim.allowed_seconds)
        return low >= self.needed or (self._aim.patience > 0.0 and lasts >= self._aim.ahead_seconds)

    # --- more --------------------------------------------------------------------------------------------------

    def _more(self, here: Sustained) -> Choice:
        coming = self._aim.coming_for
        if coming is not None and self.needed <= _MORE_STILL * coming:
            # Meanwhile what waits grows, and would be counted twice.
            return Choice(self._here, f"{self._says(self._here)}; they have just been asked for, for {self._work}")
        above = [rung for rung in self._rungs if direction(self._here, rung) > 0]
        if not above:
            return Choice(self._here, f"{self._says(self._here)}, too little for {self._work}, but it is all there is")
        target = next((rung for rung in above if self._will_do(rung, here)), None)
        if target is None:
            # None is sure to be enough. What is expected of sizes beyond those measured is then the better guide.
            expected = {rung: self._sustained[rung].prediction.records_per_second for rung in above}
            wanted = min(self.needed, _FLAT * max(expected.values()))
            target = next(rung for rung in above if expected[rung] >= wanted)
            if expected[target] <= here.prediction.records_per_second:
                why = f"{self._says(self._here)}, too little for {self._work}, and nothing larger is known to do more"
                return Choice(self._here, why)
            reason = f"{self._says(target)}; none is sure to be enough for {self._work}"
        else:
            reason = f"{self._says(target)}, for {self._work}"
        rejected = [Rejected(self._here, f"its {here} are too little: {self._needs}")]
        rejected += [
            Rejected(rung, f"its {self._sustained[rung]} are too little: {self._needs}")
            for rung in above[: above.index(target)][-2:]
        ]
        return Choice(target, reason, tuple(rejected))

    def _will_do(self, rung: Allocation, here: Sustained) -> bool:
        """Whether more is enough once it is there: it catches up, or covers arrivals and what waits is not too much."""
        low, aim = self._sustained[rung].low, self._aim
        if low >= self.needed or aim.patience == 0.0:
            return low >= self.needed
        if low < max(self._rate, self._load.rate):
            return False
        then = self._load.after(aim.ahead_seconds, here.low)
        return then.lasts(low, aim.allowed_seconds)[0] >= aim.catch_up_seconds

    # --- less --------------------------------------------------------------------------------------------------

    def _less(self) -> Choice:
        below = [rung for rung in self._rungs if direction(self._here, rung) < 0]
        if below and self._aim.is_unseen:
            # Two steps within one batch leave it with executors for the work of many.
            wait = "no batch has run with it from start to end yet, so nothing less is taken"
            return Choice(self._here, f"{self._says(self._here)}, enough for {self._work}; {wait}")
        best: tuple[float, Allocation, str] | None = None
        rejected: dict[Allocation, str] = {}
        for rung in below:
            saved, text = self._saving(rung, is_next=rung == below[-1])
            if saved is None or saved <= 0.0:
                rejected[rung] = text
            elif best is None or saved > best[0]:
                if best is not None:
                    rejected[best[1]] = f"it saves less: {best[2]}"
                best = (saved, rung, text)
            else:
                rejected[rung] = f"it saves less: {text}"
        if best is None:
            said = tuple(Rejected(rung, rejected[rung]) for rung in below[-2:])
            return Choice(self._here, f"{self._says(self._here)}, enough for {self._work}", said)
        target = best[1]
        said = tuple(Rejected(rung, rejected[rung]) for rung in below if rung in rejected)[-2:]
        return Choice(target, f"{self._says(target)}, enough for {self._work}: {best[2]}", said)

    def _saving(self, rung: Allocation, *, is_next: bool) -> tuple[float | None, str]:
        """Executors saved on average while a smaller allocation is enough, less what it costs; None: it is not."""
        sustained, aim = self._sustained[rung], self._aim
        paused = replace(self._load, waiting=self._load.waiting + self._load.rate * aim.pause_seconds)
        lasts, waiting = paused.lasts(sustained.low, aim.allowed_seconds)
        if aim.patience == 0.0:
            lasts, waiting = (LONGEST_SECONDS, 0.0) if sustained.low >= self.needed else (0.0, 0.0)
        why_not = self._why_not_less(rung, lasts) or ("" if is_next else self._why_not_at_once(rung))
        if why_not:
            return None, why_not
        usual = self._usual_dwell(rung)
        dwell = lasts if usual is None else min(lasts, max(usual, aim.ahead_seconds))
        # What waits in the end has to be worked off by somebody: at best at the price of this allocation.
        debt = 0.0 if sustained.low <= 0.0 else waiting * rung.capacity / sustained.low
        changes = self._change_cost(self._here, rung) + self._change_cost(rung, self._here)
        gained = self._here.capacity - rung.capacity
        # What is nearly used up by its price is not worth the records that wait for it.
        saved = (1.0 - _LEAST_GAIN) * gained - (debt + changes) / dwell
        lasting = "for now" if lasts >= LONGEST_SECONDS else f"for about {format_seconds(lasts)}"
        less = f"it saves {gained:.3g} executors"
        return (
            saved,
            f"{lasting} {less}, and {debt + changes:.3g} executor seconds go into changes and what is left over",
        )

    def _why_not_less(self, rung: Allocation, lasts: float) -> str:
        """Why a smaller allocation that is enough for so many seconds is too little; empty: it is not."""
        sustained, aim = self._sustained[rung], self._aim
        is_long = self._load.slope == 0.0 and lasts >= _LONG * aim.catch_up_seconds
        if sustained.prediction.records_per_second < self._rate and not is_long:
            return f"its {sustained} do not cover arrivals of {self._rate:,.0f}/s"
        failed = self._failed_rate(rung)
        if failed is not None and self._rate > _LESS_THAN_FAILED * failed:
            return f"it was not enough for arrivals of {failed:,.0f}/s"
        late = self._load.would_have_waited(sustained.low)
        if late > max(aim.allowed_seconds, _LEAST_ALLOWED_SECONDS):
            lately = f"records of the last {aim.catch_up_seconds:g} s would have waited {format_seconds(late)}"
            return f"with its {sustained} {lately}"
        if lasts < max(aim.ahead_seconds, aim.catch_up_seconds):
            return f"its {sustained} are too little: {self._needs}"
        return ""

    def _why_not_at_once(self, rung: Allocation) -> str:
        """Why a smaller allocation that is not the next one is too far away; empty: it is not."""
        sustained = self._sustained[rung]
        if sustained.is_proven:
            return ""
        if sustained.low < self.needed:
            return f"its {sustained} were not measured, and may be too little: {self._needs}"
        if rung.capacity < _UNPROVEN * self._here.capacity:
            return f"nothing so small was measured: at most {1.0 - _UNPROVEN:.0%} less at a time"
        return ""

    # --- in words ----------------------------------------------------------------------------------------------

    def _says(self, rung: Allocation) -> str:
        return f"{rung} {'sustains' if rung.executors == 1 else 'sustain'} {self._sustained[rung]}"

    @property
    def _work(self) -> str:
        load = self._load
        arrivals = f"arrivals of {load.rate:,.0f}/s"
        if abs(self._rate - load.rate) > 0.01 * load.rate:
            arrivals += f" ({self._rate:,.0f}/s in {format_seconds(self._aim.ahead_seconds)})"
        if load.waiting <= 0.0:
            return arrivals
        return f"{arrivals} and {format_count(load.waiting)} waiting to be gone in {self._aim.catch_up_seconds:g} s"

    @property
    def _needs(self) -> str:
        return f"{self.needed:,.0f}/s are needed"
