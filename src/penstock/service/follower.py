# SPDX-License-Identifier: Apache-2.0
"""Follows stored runs that go on in other processes: looks into their stores, so that events reach those who listen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock.service.desk import PipelineDesk

_LOG = logging.getLogger(__name__)


class Follower:
    """Lets desks take in what is new, again and again, in a thread of its own; leaving the context ends it.

    Parameters
    ----------
    desks
        Those to follow.
    every_seconds
        How long to wait between two looks.
    """

    def __init__(self, desks: Sequence[PipelineDesk], *, every_seconds: float = 1.0) -> None:
        self._desks, self._every_seconds = desks, every_seconds
        self._stop = threading.Event()
        self._failed: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="penstock-follower", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5.0)

    def look(self) -> None:
        """Look into every store once; one that cannot be read is tried again, and logged once."""
        for desk in self._desks:
            name = desk.facts.name
            try:
                desk.refresh()
                desk.bill()  # a long past is added up before somebody asks
                self._failed.discard(name)
            except PenstockError as fault:
                if name not in self._failed:
                    _LOG.warning("%s cannot be followed: %s", name, fault)
                self._failed.add(name)

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self.look()
