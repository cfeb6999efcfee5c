# SPDX-License-Identifier: Apache-2.0
"""CPU shares on one of many hosts: the quota is that of the executors which are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.counted_shares import CountedShares
from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.testing.fake_kernel import FakeKernel


def executor(number: int, application: str = "app-1") -> str:
    """The command line of an executor."""
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    return f"java {name} --executor-id {number} --app-id {application}"


@pytest.fixture(params=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, request.param)


@pytest.fixture
def shares(kernel: FakeKernel) -> Iterator[CountedShares]:
    """Shares whose threads hold still during a test."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    made = CountedShares("a", "app-1", hierarchy, look_every_seconds=60.0, lease_seconds=60.0)
    yield made
    made.release()


def look(shares: CountedShares) -> None:
    """Look for executors, as the thread does twice a second."""
    assert shares._watcher is not None
    shares._watcher.look()


def test_the_quota_follows_the_number_of_executors(kernel: FakeKernel, shares: CountedShares) -> None:
    """One that comes brings its part, and one that goes takes it along; without any there is no cap."""
    shares.hold(0.5)
    assert shares.read().quota_cores is None
    kernel.spawn(100, command=executor(1))
    look(shares)
    assert (shares.read().quota_cores, shares.read().executors) == (0.5, 1)
    kernel.spawn(101, command=executor(2))
    kernel.spawn(102, command=executor(3, "another"))
    look(shares)
    assert (shares.read().quota_cores, shares.read().executors) == (1.0, 2)
    assert kernel.where(102) == "/"
    kernel.end(100)
    look(shares)
    assert (shares.read().quota_cores, shares.read().executors) == (0.5, 1)


def test_another_share_takes_effect_at_once_and_none_lifts_the_cap(kernel: FakeKernel, shares: CountedShares) -> None:
    """Opened, it stays open at the next look; held again, the same share is set again."""
    kernel.spawn(100, command=executor(1))
    shares.hold(0.5)
    assert shares.read().quota_cores == 0.5
    shares.hold(0.25)
    assert shares.read().quota_cores == 0.25
    shares.hold(None)
    assert shares.read().quota_cores is None
    shares.hold(0.25)
    shares.open()
    look(shares)
    assert shares.read().quota_cores is None
    shares.hold(0.25)
    assert shares.read().quota_cores == 0.25


def test_a_quota_that_cannot_follow_is_a_fault_until_it_does(
    kernel: FakeKernel, shares: CountedShares, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look goes on, says what failed, and the next one mends it."""
    shares.hold(0.5)
    assert shares._lease is not None
    kernel.spawn(100, command=executor(1))
    with monkeypatch.context() as broken:

        def refuse(_: float | None) -> None:
            raise OSError("no space in the kernel")

        broken.setattr(shares._lease, "set_quota", refuse)
        look(shares)
        assert list(shares.faults) == ["the quota could not follow the number of executors: no space in the kernel"]
    look(shares)
    assert list(shares.faults) == []
    assert shares.read().quota_cores == 0.5


@pytest.mark.parametrize("cores", [None, 0.5])
def test_a_cap_that_could_not_be_lifted_is_tried_again_at_the_next_word(
    kernel: FakeKernel, shares: CountedShares, monkeypatch: pytest.MonkeyPatch, cores: float | None
) -> None:
    """Whether that is the word to hold nothing, or the share that was in force."""
    kernel.spawn(100, command=executor(1))
    shares.hold(0.5)
    assert shares._lease is not None
    set_quota = shares._lease.set_quota
    told: list[float | None] = []

    def refuse_once(wanted: float | None) -> None:
        told.append(wanted)
        if len(told) == 1:
            raise OSError("the kernel refuses")
        set_quota(wanted)

    monkeypatch.setattr(shares._lease, "set_quota", refuse_once)
    with pytest.raises(OSError, match="refuses"):
        shares.open()
    shares.hold(cores)
    assert told == [None, cores]
    assert shares.read().quota_cores == cores
