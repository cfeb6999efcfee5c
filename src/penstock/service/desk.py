# SPDX-License-Identifier: Apache-2.0
"""The port between the HTTP API and a pipeline: read it and, where it runs here, steer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from penstock.knowledge.run_notes import RunNote
from penstock.loop import Helm
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Observation
from penstock.service.bill import Bill
from penstock.service.columns import Columns
from penstock.service.facts import PipelineFacts
from penstock.service.last_changes import FailedChange
from penstock.service.tally import Tally
from penstock.steering import SteeringState


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; None: nobody knows.

    Attributes
    ----------
    phase, fraction
        What is being done, and how much of it is.
    started_at, ended_at
        When the run began and ended.
    """

    phase: str | None = None
    fraction: float | None = None
    started_at: float | None = None
    ended_at: float | None = None


class PipelineDesk(Protocol):
    """One pipeline, as people look at it and steer it.

    Promises: answers come at once and never wait for the loop; nothing that goes wrong here reaches it; safe to use
    from several threads.
    """

    @property
    def facts(self) -> PipelineFacts:
        """What does not change."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether its loop runs in this process."""
        ...

    @property
    def is_of_this_process(self) -> bool:
        """Whether its loop runs, or ran, in this process; False: it is stored."""
        ...

    @property
    def history(self) -> KnowledgeStore:
        """Its records, to read."""
        ...

    @property
    def columns(self) -> Columns:
        """Its past as columns, for plots."""
        ...

    @property
    def is_followed(self) -> bool:
        """Whether its loop goes on in another process, as far as its store shows."""
        ...

    def refresh(self) -> None:
        """Take in what has come since; every request asks for it first."""
        ...

    @property
    def helm(self) -> Helm:
        """Where it is steered. Raises SteeringError where it cannot be."""
        ...

    @property
    def can_steer(self) -> bool:
        """Whether orders are taken."""
        ...

    def now(self) -> float:
        """The instant that ages count from."""
        ...

    def seen(self, operator: str) -> Observation | None:
        """The newest observation of an operator."""
        ...

    def decided(self, operator: str) -> Decision | None:
        """The newest decision on an operator."""
        ...

    def trouble(self, operator: str) -> str | None:
        """Why the last look at an operator failed; None: it did not, or that is not known here."""
        ...

    def failed(self, operator: str) -> FailedChange | None:
        """The newest change of an operator, if it has failed."""
        ...

    def original(self, operator: str) -> Allocation | None:
        """The operator's size at the start of the run."""
        ...

    def state(self) -> SteeringState:
        """The orders in force."""
        ...

    def progress(self) -> Progress:
        """How far it is."""
        ...

    @property
    def tally(self) -> Tally:
        """What its loop has done since the service began."""
        ...

    def bill(self) -> Bill:
        """What it has cost so far, as far as records are remembered."""
        ...

    def notes(self) -> list[RunNote]:
        """What was said of it besides decisions."""
        ...
