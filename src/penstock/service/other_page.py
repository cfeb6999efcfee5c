# SPDX-License-Identifier: Apache-2.0
"""Where the page of the other master is, so that those who look can go on there when this one is gone."""

from __future__ import annotations

import logging

from penstock.errors import AdaptorError
from penstock.ports import LeaseStore

_LOG = logging.getLogger(__name__)
LEADERS_PAGE, STANDBY_PAGE = "leaders page", "standby page"
"""Leases whose holders are addresses of pages: that of who leads, and that of one who would take over."""
_KEPT_SECONDS = 5.0


class OtherPage:
    """Tells the other masters of one store where our page is, and learns where theirs is.

    Parameters
    ----------
    leases
        What the masters share.
    ours
        The address of our page.
    """

    def __init__(self, leases: LeaseStore, ours: str) -> None:
        self._leases, self._ours = leases, ours
        self.address: str | None = None
        """The page of who leads or, where we lead, of one who would take over; None: there is none."""

    def step(self, is_leading: bool) -> None:
        """Say and ask again; once a second."""
        mine, others = (LEADERS_PAGE, STANDBY_PAGE) if is_leading else (STANDBY_PAGE, LEADERS_PAGE)
        try:
            self._leases.release_lease(others, self._ours)  # it may be ours from before the lead went over
            self._leases.take_lease(mine, self._ours, _KEPT_SECONDS)
            found = self._leases.lease(others)
        except AdaptorError as fault:
            _LOG.info("where the other master's page is, is not known: %s", fault)
            return
        self.address = None if found is None else found.holder

    def end(self) -> None:
        """Our page is there no more."""
        try:
            for name in (LEADERS_PAGE, STANDBY_PAGE):
                self._leases.release_lease(name, self._ours)
        except AdaptorError as fault:  # the lease ends by itself
            _LOG.info("the address of the page was not taken back: %s", fault)
