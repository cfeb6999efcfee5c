# SPDX-License-Identifier: Apache-2.0
"""How the near side of a query is put together, without a Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock import _wiring
from penstock.adaptors import clusters
from penstock.adaptors.cpu_shares import HeldExecutors, SharedApplication
from penstock.adaptors.spark import meters, query_probe
from penstock.records import ExecutorState, Limits, Mode


class FakeReader:
    """The driver's executors: none."""

    def __call__(self) -> tuple[ExecutorState, ...]:
        """None."""
        return ()

    def entries(self) -> list[Any]:
        """None."""
        return []


class RecordingParts:
    """Takes down what the parts were made with."""

    def __init__(self) -> None:
        self.applications: list[SharedApplication] = []
        self.masters: list[bool] = []
        self.requested: list[int | None] = []
        self.probe: dict[str, Any] = {}
        self.closed: list[str] = []

    def hold(
        self, application: SharedApplication, _operator: str, _limits: Limits, requested: Any, *, has_master: bool
    ) -> HeldExecutors:
        """As `hold_executors`; a thread may ask at once how many executors were requested."""
        self.applications.append(application)
        self.masters.append(has_master)
        self.requested.append(requested())
        watch: Any = SimpleNamespace(faults=("executor 2 waits",), stop=lambda: self.closed.append("watch"))
        return HeldExecutors(watch=watch, notes=("a note",))

    def make_probe(self, *_: Any, **options: Any) -> Any:
        """As `QueryProbe`."""
        self.probe = options
        return SimpleNamespace(close=lambda: self.closed.append("probe"))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> RecordingParts:
    """The parts of a query on Kubernetes."""
    made = RecordingParts()
    conf = SimpleNamespace(get=lambda _: "2", getAll=lambda: [("spark.executor.cores", "2")])
    context = SimpleNamespace(
        applicationId="spark-7", master="k8s://https://h:6443", uiWebUrl="http://h:4040", getConf=lambda: conf
    )
    monkeypatch.setattr(_wiring, "query_context", lambda _: context)
    monkeypatch.setattr(query_probe, "executors_of_this_driver", FakeReader)
    monkeypatch.setattr(query_probe, "QueryProbe", made.make_probe)
    monkeypatch.setattr(meters, "query_meters", lambda *_: None)
    monkeypatch.setattr(clusters, "ContextControl", lambda _: None)
    monkeypatch.setattr(clusters, "hold_executors", made.hold)
    monkeypatch.setattr(clusters.OnKubernetes, "_room_reader", lambda _: None)
    return made


def test_a_query_that_is_scaled_is_held_and_let_go(parts: RecordingParts) -> None:
    """Faults of the executors' pods are among those of a look; closing ends both parts."""
    query: Any = object()
    hold = _wiring.hold_query(query, "counts", Limits(1, 2), Mode.ACT)
    assert parts.applications == [
        SharedApplication("spark-7", "k8s://https://h:6443", {"spark.executor.cores": "2"}, 2)
    ]
    assert parts.masters == [False]
    assert parts.requested == [None], "nothing was asked for yet"
    assert hold.notes == ("a note",)
    assert parts.probe["other_faults"]() == ("executor 2 waits",)
    hold.close()
    assert parts.closed == ["probe", "watch"]


def test_a_query_that_is_only_watched_is_not_held(parts: RecordingParts) -> None:
    """Without the order to act the cluster is not asked."""
    query: Any = object()
    hold = _wiring.hold_query(query, "counts", Limits(1, 2, (0.5, 1.0)), Mode.RECOMMEND)
    assert (parts.applications, hold.notes) == ([], ())
    hold.close()
    assert parts.closed == ["probe"]


def test_what_was_taken_hold_of_is_let_go_when_a_later_part_fails(
    parts: RecordingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query goes on without a group, guard or thread of ours."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("too many open files")

    query: Any = object()
    monkeypatch.setattr(query_probe, "QueryProbe", fail)
    with pytest.raises(OSError, match="too many"):
        _wiring.hold_query(query, "counts", Limits(1, 2), Mode.ACT)
    assert parts.closed == ["watch"]
