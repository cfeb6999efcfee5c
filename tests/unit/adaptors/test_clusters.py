# SPDX-License-Identifier: Apache-2.0
"""Which cluster a master's URL stands for, and what each says before anybody plans with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.adaptors import clusters
from penstock.adaptors.clusters import OnKubernetes, OnStandalone, OnYarn, RunningApplication, SparkCluster, cluster_of
from penstock.adaptors.kubernetes.api import ClusterAccess
from penstock.adaptors.kubernetes.node_choice import TEMPLATE_SETTING, NodeTemplate
from penstock.errors import ActuationRejectedError, ConfigurationError
from penstock.ports import NodeChoice
from penstock.records import Allocation, Limits
from penstock.testing import FakeCluster

KUBERNETES = "k8s://https://h:6443"


class FakeCalls(FakeCluster):
    """Spark's own calls, as `ContextControl` has them."""

    def requested_total(self) -> int | None:
        """The last total."""
        return self.total

    def request_total(self, total: int) -> None:
        """Ask for it."""
        self.ask(total)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> FakeCalls:
    """The calls of an application without Spark."""
    made = FakeCalls()
    monkeypatch.setattr(clusters, "ContextControl", lambda _: made)
    return made


def an_application(master: str, conf: dict[str, str] | None = None, cores: int | None = 1) -> RunningApplication:
    """An application on this master."""
    context: Any = SimpleNamespace(
        applicationId="app", master=master, getConf=lambda: SimpleNamespace(getAll=lambda: list((conf or {}).items()))
    )
    return RunningApplication(context, cores=cores)


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("spark://h:7077", OnStandalone),
        ("yarn", OnYarn),
        (KUBERNETES, OnKubernetes),
        ("local[2]", SparkCluster),
    ],
)
def test_the_masters_url_says_which_cluster_it_is(calls: FakeCalls, master: str, kind: type[SparkCluster]) -> None:
    """One place decides."""
    assert type(cluster_of(an_application(master))) is kind


def test_a_cluster_passes_on_what_spark_is_asked(calls: FakeCalls) -> None:
    """Executors are asked for, killed and drained by Spark's own calls."""
    cluster = cluster_of(an_application("spark://h:7077"))
    cluster.ask(3)
    assert (cluster.asked(), len(cluster.census().active)) == (3, 3)
    cluster.ask(1)
    cluster.drain("0", "the test says so")
    cluster.kill(["1"])
    assert cluster.census().active == ("2",)


def test_a_standalone_cluster_takes_nodes_and_places_executors_in_its_own_way(calls: FakeCalls) -> None:
    """Nothing is told to its master."""
    cluster = cluster_of(an_application("spark://h:7077"))
    cluster.hold("counts", Limits(1, 2, nodes=("a", "b")))
    assert cluster.nodes == NodeChoice(("a", "b"))
    cluster.choose(("a",))


@pytest.mark.parametrize(
    ("master", "words"), [("yarn", "node label"), (KUBERNETES, "template"), ("local[2]", "standalone clusters")]
)
def test_where_nodes_cannot_be_chosen_it_is_said_and_refused(calls: FakeCalls, master: str, words: str) -> None:
    """The reason is there before anything is asked, and the same in the refusal."""
    cluster = cluster_of(an_application(master))
    why = cluster.nodes.why_none
    assert why is not None
    assert words in why
    with pytest.raises(ActuationRejectedError) as refused:
        cluster.choose(("a",))
    assert why in str(refused.value)


def test_on_kubernetes_a_template_of_penstocks_own_takes_nodes(
    calls: FakeCalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rewritten for executors that come."""

    def refuse(_: ClusterAccess) -> Any:
        raise ConfigurationError("no login for the Kubernetes API was found", field="kubernetes")

    monkeypatch.setattr(ClusterAccess, "connect", refuse)
    own = tmp_path / "executor-pod.json"
    NodeTemplate.made_from(None, own)
    cluster = cluster_of(an_application(KUBERNETES, {TEMPLATE_SETTING: str(own)}))
    cluster.hold("counts", Limits(1, 2, nodes=("a", "b")))
    assert cluster.nodes == NodeChoice(("a", "b"))
    cluster.choose(("a",))
    assert '"values": ["a"]' in own.read_text()


def test_why_there_are_no_shares_is_said_and_they_are_refused(calls: FakeCalls) -> None:
    """Before executors are held, where no shares are wanted, and where cores are not known."""
    cluster = cluster_of(an_application("spark://h:7077", cores=None))
    assert cluster.why_no_shares == "executors are only watched"
    cluster.hold("counts", Limits(1, 2))
    assert cluster.why_no_shares == "no CPU shares are among the limits"
    cluster.hold("counts", Limits(1, 2, (0.5, 1.0)))
    assert "set spark.executor.cores" in str(cluster.why_no_shares)
    with pytest.raises(ActuationRejectedError, match=r"set spark\.executor\.cores"):
        cluster.resize(Allocation(1, 0.5))
    assert cluster.share_refusal() is None
    cluster.release()
    cluster.close()


@pytest.mark.parametrize(("master", "cores"), [("local[2]", 1), ("spark://h:7077", None)])
def test_what_can_be_had_is_not_known_where_nobody_can_be_asked(
    calls: FakeCalls, master: str, cores: int | None
) -> None:
    """A local master has nothing to give; without the cores of an executor no number is known."""
    cluster = cluster_of(an_application(master, cores=cores))
    cluster.watch_room()
    assert (cluster.room(), cluster.faults) == (None, ())


def test_on_kubernetes_what_keeps_quotas_from_being_read_is_a_note(
    calls: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, also where executors are held and the same thing kept their pods from being seen."""

    def refuse(_: ClusterAccess) -> Any:
        raise ConfigurationError("no login for the Kubernetes API was found", field="kubernetes")

    monkeypatch.setattr(ClusterAccess, "connect", refuse)
    watched, held = (cluster_of(an_application(KUBERNETES)) for _ in range(2))
    held.hold("counts", Limits(1, 2))
    for cluster in (watched, held):
        cluster.watch_room()
        assert cluster.room() is None
        (note,) = cluster.notes
        assert "no login for the Kubernetes API was found" in note
