# SPDX-License-Identifier: Apache-2.0
"""What a host holds for a master: what it was last told, no other application, and nothing after a silence."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.adaptors.test_cgroups_counted_shares import executor

from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.adaptors.cgroups.host_shares import HostShares
from penstock.records import ExecutorShare, HeldOnHost
from penstock.testing.fake_kernel import FakeKernel


@pytest.fixture(params=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A fake kernel with an executor of each of two applications."""
    made = FakeKernel(tmp_path, request.param)
    made.spawn(100, command=executor(1, "one"))
    made.spawn(200, command=executor(7, "other"))
    return made


@pytest.fixture
def moment() -> list[float]:
    """What the clock shows."""
    return [1000.0]


@pytest.fixture
def host(kernel: FakeKernel, moment: list[float]) -> Iterator[HostShares]:
    """A host that was told nothing yet; its threads hold still during a test."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    made = HostShares(
        hierarchy, here="this host", monotonic=lambda: moment[0], look_every_seconds=60.0, lease_seconds=60.0
    )
    yield made
    made.close()


def cap(held: HeldOnHost) -> float | None:
    """The cap that was read."""
    assert held.cpu is not None
    return held.cpu.quota_cores


def groups(kernel: FakeKernel) -> list[Path]:
    """What there is of ours."""
    return sorted(kernel.root.rglob("penstock/*"))


def test_what_is_named_is_held_and_nothing_else(kernel: FakeKernel, host: HostShares) -> None:
    """Executors of an application that no master scales are not touched; one that is named no more is put back."""
    (held,) = host.hold([ExecutorShare("one", 0.5)])
    assert (held.application_id, held.executors, cap(held), held.faults) == ("one", ("1",), 0.5, ())
    assert kernel.where(200) == "/"
    first, second = host.hold([ExecutorShare("one", 0.25), ExecutorShare("other", None)])
    assert (cap(first), cap(second), second.executors) == (0.25, None, ("7",))
    (left,) = host.hold([ExecutorShare("other", 0.5)])
    assert cap(left) == 0.5
    assert kernel.where(100) == "/"
    host.close()
    assert (kernel.where(200), groups(kernel)) == ("/", [])


def test_an_application_without_executors_here_costs_nothing(kernel: FakeKernel, host: HostShares) -> None:
    """No group and no guard process, until its first executor comes."""
    assert host.hold([ExecutorShare("third", 0.5)]) == [HeldOnHost("third")]
    assert groups(kernel) == []
    kernel.spawn(300, command=executor(3, "third"))
    (held,) = host.hold([ExecutorShare("third", 0.5)])
    assert (held.executors, cap(held)) == (("3",), 0.5)


def test_an_executor_whose_number_was_another_processs_before_is_held(
    kernel: FakeKernel, host: HostShares, moment: list[float]
) -> None:
    """While all applications are held, nobody looks for others, and what was seen of processes gets old."""
    kernel.spawn(300, command="bash")
    for _ in range(25):
        host.hold([ExecutorShare("third", 0.5)])
        moment[0] += 1.0
    for _ in range(60):
        host.hold([ExecutorShare("one", 0.5)])
        moment[0] += 1.0
    kernel.end(300)
    kernel.spawn(300, command=executor(3, "third"))
    (_, held) = host.hold([ExecutorShare("one", 0.5), ExecutorShare("third", 0.5)])
    assert (held.executors, cap(held)) == (("3",), 0.5)


def test_executors_that_the_driver_of_this_host_holds_are_left_to_it(kernel: FakeKernel, host: HostShares) -> None:
    """Two that hold the same executors would take them from each other; those of a driver elsewhere are held."""
    assert host.hold([ExecutorShare("one", 0.5, held_at="this host")]) == []
    assert groups(kernel) == []
    (held,) = host.hold([ExecutorShare("one", 0.5, held_at="another host")])
    assert held.executors == ("1",)


def test_silence_opens_all_caps_and_the_next_word_sets_them_again(host: HostShares, moment: list[float]) -> None:
    """Five seconds are too long, and not four; the groups stay."""
    wanted = [ExecutorShare("one", 0.5), ExecutorShare("other", 0.25)]
    host.hold(wanted)
    moment[0] += 4.9
    host.check_silence()
    assert [held.read().quota_cores for held in host._held.values()] == [0.5, 0.25]
    moment[0] += 0.2
    host.check_silence()
    assert [held.read().quota_cores for held in host._held.values()] == [None, None]
    moment[0] += 60.0
    host.check_silence()
    assert [cap(held) for held in host.hold(wanted)] == [0.5, 0.25]


def test_a_cap_that_cannot_be_lifted_keeps_no_other_and_is_tried_again(
    host: HostShares, moment: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second application is opened at once, the first as soon as the kernel lets it."""
    host.hold([ExecutorShare("one", 0.5), ExecutorShare("other", 0.25)])
    moment[0] += 5.1
    with monkeypatch.context() as broken:

        def refuse() -> None:
            raise OSError("the kernel refuses")

        broken.setattr(host._held["one"], "open", refuse)
        host.check_silence()
    assert [held.read().quota_cores for held in host._held.values()] == [0.5, None]
    host.check_silence()
    assert [held.read().quota_cores for held in host._held.values()] == [None, None]


@pytest.mark.parametrize("cores", [0.0, -1.0, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused_as_a_whole(kernel: FakeKernel, host: HostShares, cores: float) -> None:
    """Nothing of such a message is done."""
    with pytest.raises(ValueError, match="cannot be held"):
        host.hold([ExecutorShare("one", 0.5), ExecutorShare("other", cores)])
    assert groups(kernel) == []


def test_an_application_that_cannot_be_held_is_told_and_the_others_are_held(
    kernel: FakeKernel, host: HostShares, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault has its reason, no executor counts as held, and the next word tries again."""
    make = kernel.make

    def refuse(folder: str) -> None:
        if "-one-" in folder:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
        make(folder)

    with monkeypatch.context() as broken:
        broken.setattr(kernel, "make", refuse)
        first, second = host.hold([ExecutorShare("one", 0.5), ExecutorShare("other", 0.5)])
        assert (first.executors, first.cpu) == ((), None)
        assert "No space left" in first.faults[0]
        assert second.executors == ("7",)
    (again, _) = host.hold([ExecutorShare("one", 0.5), ExecutorShare("other", 0.5)])
    assert again.executors == ("1",)
