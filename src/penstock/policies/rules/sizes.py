# SPDX-License-Identifier: Apache-2.0
"""How far a rule scales: its amount, its limit and the operator's own, each clamped and said.

Growing gives at least what the rule says, shrinking takes at most that: numbers of executors are whole, and CPU shares
are levels of the operator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from penstock.records import Allocation, Limits
from penstock.rules.nodes import Direction, Keep, Quantity, Scale, Side

_MOST = 2.0**53
"""Executors beyond this are not counted one by one, and no operator has so many."""
_SAME = 1e-9
"""Shares and multiples are written by people: what differs by rounding alone is the same."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A size, and what was clamped on the way to it."""

    allocation: Allocation
    notes: tuple[str, ...] = ()


def scaled(scale: Scale, base: Allocation, original: Allocation, limits: Limits) -> Sized:
    """What a rule makes of `base`.

    Parameters
    ----------
    scale
        Which way, how far, and up to where. A relative limit is a multiple of the original size.
    base
        The size that it starts from. What lies beyond a limit already stays there: a rule never goes the other way.
    original
        The operator's size at the start of the run.
    limits
        What the operator may have.
    """
    if scale.direction.is_horizontal:
        return _executors(scale, base, original.executors, limits)
    return _share(scale, base, original.cpu_share, limits)


def _executors(scale: Scale, base: Allocation, original: int, limits: Limits) -> Sized:
    is_growth, notes = scale.direction is Direction.OUT, list[str]()
    wanted = _rounded(_moved(base.executors, scale), is_growth=is_growth)
    if is_growth:
        wanted = max(wanted, base.executors)
        if scale.limit is not None:
            most = math.floor(min(_limit(scale.limit, original), _MOST) + _SAME)
            wanted = _clamped(wanted, max(most, base.executors), f"its limit is {_count(most)}", notes)
        most = max(limits.max_executors, base.executors)
        wanted = _clamped(wanted, most, f"the operator may have {_count(limits.max_executors)}", notes)
    else:
        wanted = min(max(wanted, 1), base.executors)
        if scale.limit is not None:
            least = math.ceil(min(_limit(scale.limit, original), _MOST) - _SAME)
            wanted = -_clamped(-wanted, -min(least, base.executors), f"its limit is {_count(least)}", notes)
        least = min(limits.min_executors, base.executors)
        why = f"the operator has at least {_count(limits.min_executors)}"
        wanted = -_clamped(-wanted, -least, why, notes)
    return Sized(with_executors(base, wanted), tuple(notes))


def _share(scale: Scale, base: Allocation, original: float, limits: Limits) -> Sized:
    is_growth, notes = scale.direction is Direction.UP, list[str]()
    wanted, here = _moved(base.cpu_share, scale), base.cpu_share
    allowed = limits.cpu_shares
    if scale.limit is not None:
        bound = _limit(scale.limit, original)
        is_beyond = wanted > bound + _SAME if is_growth else wanted < bound - _SAME
        if is_beyond:
            wanted = bound
            notes.append(f"its limit is {bound:.0%}")
        # A level between the wanted share and the next may lie beyond the limit.
        allowed = tuple(s for s in allowed if (s <= bound + _SAME if is_growth else s >= bound - _SAME))
    if is_growth:
        beyond = [s for s in allowed if s > here + _SAME]
        level = next((s for s in beyond if s >= wanted - _SAME), beyond[-1] if beyond else here)
    else:
        below = [s for s in allowed if wanted - _SAME <= s < here - _SAME]
        level = below[0] if below else here
    if level == here:
        notes.append(f"no CPU share {'above' if is_growth else 'so little below'} {here:.0%} may be had")
    elif not math.isclose(level, wanted, rel_tol=_SAME):
        notes.append(f"the nearest CPU share is {level:.0%}")
    return Sized(replace(base, cpu_share=level), tuple(notes))


def kept(keep: Keep, base: Allocation, limits: Limits) -> Sized:
    """What a bound makes of `base`, as far as the operator's own limits let it."""
    is_least, notes = keep.side is Side.LEAST, list[str]()
    if keep.executors is not None:
        bound = min(max(keep.executors, limits.min_executors), limits.max_executors)
        if bound != keep.executors:
            notes.append(f"the operator may have {limits.min_executors} to {_count(limits.max_executors)}")
        wanted = max(base.executors, bound) if is_least else min(base.executors, bound)
        base = with_executors(base, wanted)
    if keep.cpu_share is not None:
        shares = limits.cpu_shares
        if is_least:
            level = next((s for s in shares if s >= keep.cpu_share - _SAME), shares[-1])
            base = replace(base, cpu_share=max(base.cpu_share, level))
        else:
            level = next((s for s in reversed(shares) if s <= keep.cpu_share + _SAME), shares[0])
            base = replace(base, cpu_share=min(base.cpu_share, level))
        if not math.isclose(level, keep.cpu_share, rel_tol=_SAME):
            notes.append(f"the nearest CPU share is {level:.0%}")
    return Sized(base, tuple(notes))


def with_executors(base: Allocation, executors: int) -> Allocation:
    """The same with another number of executors; then the cluster chooses their nodes."""
    return base if executors == base.executors else replace(base, executors=executors, nodes=())


def _moved(size: float, scale: Scale) -> float:
    amount = scale.amount
    if amount.is_relative:
        return size * amount.value if scale.direction.is_growth else size / amount.value
    return size + amount.value if scale.direction.is_growth else size - amount.value


def _rounded(executors: float, *, is_growth: bool) -> int:
    """Up where it grows; where it shrinks to the nearest, so that two thirds of two are one."""
    return math.ceil(min(executors, _MOST) - _SAME) if is_growth else math.floor(executors + 0.5)


def _limit(limit: Quantity, original: float) -> float:
    return limit.value * original if limit.is_relative else limit.value


def _clamped(wanted: int, most: int, why: str, notes: list[str]) -> int:
    if wanted > most:
        notes.append(why)
        return most
    return wanted


def _count(executors: int) -> str:
    return f"{executors} {'executor' if executors == 1 else 'executors'}"
