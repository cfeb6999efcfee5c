# SPDX-License-Identifier: Apache-2.0
"""CPU shares on one of many hosts: its quota follows how many executors are there."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Unpack

from penstock.adaptors.cgroups.held_group import HeldGroup, HoldOptions
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.errors import PenstockError
from penstock.records import CpuReading

_UNKNOWN = math.nan
"""A quota that is none of those that can be wanted."""


class CountedShares(HeldGroup):
    """Holds an application's executors on this host to so many cores each. They share what is theirs together.

    Where executors start is the cluster's choice, and known elsewhere only seconds later. So they are counted here, at
    every look, and nobody has to say how many there are.
    """

    def __init__(
        self, operator: str, application_id: str, hierarchy: Hierarchy, **options: Unpack[HoldOptions]
    ) -> None:
        super().__init__(operator, application_id, hierarchy, **options)
        self._each: float | None = None
        self._quota: float | None = None
        # Not the lock of the group: `release` waits, with that, for a look to end.
        self._counting = threading.Lock()
        self._fault: str | None = None

    def hold(self, cores_each: float | None) -> None:
        """Cap the executors at so many cores each. None: no cap."""
        self.start()
        with self._counting:
            self._each = cores_each
            self._follow()

    def open(self) -> None:
        """Lift the cap and keep the group."""
        with self._counting:
            self._each, self._quota = None, _UNKNOWN  # it may fail: then the next look, or word, lifts it
        super().open()

    def read(self) -> CpuReading:
        """Return the kernel's counters of the executors, and how many these are."""
        return replace(super().read(), executors=len(self.joined))

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        return super().faults if self._fault is None else (*super().faults, self._fault)

    def _looked(self) -> None:
        with self._counting:
            try:
                self._follow()
            except (PenstockError, OSError) as fault:  # the next look tries again
                self._fault = f"the quota could not follow the number of executors: {fault}"
            else:
                self._fault = None

    def _follow(self) -> None:
        """Set the quota for as many executors as there are."""
        number, lease = len(self.joined), self._lease
        wanted = None if self._each is None or number == 0 else number * self._each
        if wanted == self._quota or lease is None or self._is_released:
            return
        self._quota = _UNKNOWN
        lease.set_quota(wanted)
        self._quota = wanted
