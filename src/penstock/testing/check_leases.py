# SPDX-License-Identifier: Apache-2.0
"""What every store of leases must do, checked on any of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.ports import LeaseStore

MakeLeases = Callable[[], LeaseStore]
_LONG, _SHORT = 60.0, 0.05


def check_leases(make_leases: MakeLeases) -> None:
    """Check that a lease has one holder, that it ends by itself, and that fencing numbers only rise.

    Parameters
    ----------
    make_leases
        Gives a store that nobody has used, or another connection to the one that it gave before; called several times.
    """
    first, second = make_leases(), make_leases()
    assert first.lease("a lead") is None, "nobody holds a lease at first"
    taken = first.take_lease("a lead", "ana", _LONG)
    assert taken is not None
    assert taken.holder == "ana", "a free lease can be taken"
    assert second.take_lease("a lead", "ben", _LONG) is None, "a lease that is held cannot be taken"
    seen = second.lease("a lead")
    assert seen is not None
    assert (seen.holder, seen.fence) == ("ana", taken.fence), "who holds it is seen by all"
    assert 0 < seen.seconds_left <= _LONG
    renewed = first.take_lease("a lead", "ana", _LONG)
    assert renewed is not None
    assert renewed.fence == taken.fence, "renewing keeps the fencing number"
    second.release_lease("a lead", "ben")
    assert second.lease("a lead") is not None, "only its holder can give a lease back"
    first.release_lease("a lead", "ana")
    assert second.lease("a lead") is None, "a lease that was given back is free"
    again = first.take_lease("a lead", "ana", _SHORT)
    assert again is not None
    assert again.fence > taken.fence, "a new tenure has a larger fencing number, also of the same holder"
    late = None
    until = time.monotonic() + 10.0
    while late is None and time.monotonic() < until:
        late = second.take_lease("a lead", "ben", _LONG)
        time.sleep(0.005)
    assert late is not None, "a lease that is not renewed ends by itself"
    assert late.fence > again.fence, "the next holder has a larger fencing number"
    assert first.take_lease("a lead", "ana", _LONG) is None, "who was late has lost it"
    other = first.take_lease("another lead", "ana", _LONG)
    assert other is not None, "leases of other names are apart"
    _one_of_many(make_leases)


def _one_of_many(make_leases: MakeLeases) -> None:
    won: list[str] = []
    start = threading.Barrier(8)

    def run(name: str, store: LeaseStore) -> None:
        start.wait()
        if store.take_lease("a contested lead", name, _LONG) is not None:
            won.append(name)

    threads = [threading.Thread(target=run, args=(f"holder {n}", make_leases())) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1, f"of eight who ask at once one gets the lease, not {won}"
