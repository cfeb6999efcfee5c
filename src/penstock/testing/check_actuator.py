# SPDX-License-Identifier: Apache-2.0
"""What every actuator must do, checked on any actuator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.ports import Actuator
from penstock.records import Action, Allocation

A = TypeVar("A", bound=Actuator)


def check_actuator(
    make_actuator: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    *,
    sizes: tuple[Allocation, Allocation] = (Allocation(2, 1.0), Allocation(1, 1.0)),
) -> None:
    """Check that requests are idempotent by their id, the newest wins, and release puts all back, twice too.

    Parameters
    ----------
    make_actuator
        Gives an actuator for an operator in one known state; it is asked once per check.
    observe
        Gives the allocation in force, seen from outside where that can be done.
    settle
        Waits (or moves a virtual clock) until a request has had the time to take effect.
    sizes
        Two allocations the operator may be given.
    """
    for check in ACTUATOR_CHECKS:
        check(make_actuator, observe, settle, sizes)


def _reaches_what_is_asked(
    make: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    sizes: tuple[Allocation, Allocation],
) -> None:
    actuator = make()
    try:
        for size in sizes:
            actuator.request(_ask(size))
            settle(actuator)
            _same(actuator, observe(actuator), size, "after a request")
    finally:
        actuator.release()


def _same_id_is_one_request(
    make: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    sizes: tuple[Allocation, Allocation],
) -> None:
    actuator = make()
    try:
        first, second = _ask(sizes[0]), _ask(sizes[1])
        for action in (first, first, second):
            actuator.request(action)
        settle(actuator)
        # A retry of the old request that arrives late must not undo the new one.
        actuator.request(first)
        settle(actuator)
        _same(actuator, observe(actuator), sizes[1], "after a repeated request id")
    finally:
        actuator.release()


def _newest_wins(
    make: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    sizes: tuple[Allocation, Allocation],
) -> None:
    actuator = make()
    try:
        for size in (sizes[0], sizes[1], sizes[0]):
            actuator.request(_ask(size))
        settle(actuator)
        _same(actuator, observe(actuator), sizes[0], "after three requests in a row")
    finally:
        actuator.release()


def _release_puts_all_back(
    make: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    sizes: tuple[Allocation, Allocation],
) -> None:
    actuator = make()
    before = observe(actuator)
    for size in sizes:
        actuator.request(_ask(size))
        settle(actuator)
    actuator.request(_ask(sizes[0]))  # still on its way when the release comes
    for _ in range(2):
        actuator.release()
        settle(actuator)
        after = observe(actuator)
        assert after == before, f"release left {after}; it was {before} before the first request"


def _release_without_request(
    make: Callable[[], A],
    observe: Callable[[A], Allocation | None],
    settle: Callable[[A], None],
    sizes: tuple[Allocation, Allocation],
) -> None:
    del sizes
    actuator = make()
    before = observe(actuator)
    actuator.release()
    settle(actuator)
    assert observe(actuator) == before, "release without any request changed the allocation"


def _ask(size: Allocation) -> Action:
    return Action("operator", 0.0, size, decision_id=None)


def _same(actuator: Actuator, seen: Allocation | None, wanted: Allocation, when: str) -> None:
    assert seen is not None, f"nothing can be observed {when}"
    assert seen.executors == wanted.executors, f"{seen.executors} executors {when}; {wanted.executors} were asked for"
    if actuator.can_set_cpu_share:
        assert seen.cpu_share == wanted.cpu_share, f"share {seen.cpu_share} {when}; {wanted.cpu_share} was asked for"


ACTUATOR_CHECKS = (
    _reaches_what_is_asked,
    _same_id_is_one_request,
    _newest_wins,
    _release_puts_all_back,
    _release_without_request,
)
