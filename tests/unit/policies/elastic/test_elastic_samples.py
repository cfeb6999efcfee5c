# SPDX-License-Identifier: Apache-2.0
"""Samples that a running query gives for nothing."""

from __future__ import annotations

import pytest
from tests.unit.policies.elastic.elastic_worlds import a_look

from penstock.policies.elastic.samples import FreeSamples
from penstock.ports import OperatorSite
from penstock.records import Allocation, Limits

TWO, FOUR = Allocation(2), Allocation(4)


def free(**site: object) -> FreeSamples:
    """Samples of a query whose batches may be 10 s long."""
    return FreeSamples(OperatorSite(Limits(1, 8), **site), 10.0)  # type: ignore[arg-type]


def seconds_of(rows: int, has: Allocation) -> float:
    """Half a second, and 4 ms a record on one executor."""
    return 0.5 + 0.004 * rows / has.capacity


def show(samples: FreeSamples, has: Allocation, rows: list[int], at: float = 0.0) -> float:
    """Show a look after each batch; gives when the last one was."""
    samples.watch(a_look(at, has))
    for each in rows:
        at += seconds_of(each, has)
        samples.watch(a_look(at, has, (each, seconds_of(each, has))))
    return at


def test_batches_of_any_size_give_what_full_ones_would_do() -> None:
    """Once fixed time and time per record are told apart, small batches show what batches of 10 s sustain."""
    samples = free()
    show(samples, TWO, [100, 300, 200, 500] * 30)
    assert samples.samples
    # (1 - 0.5 / 10) / 0.002
    for sample in samples.samples:
        assert sample.allocation == TWO
        assert sample.records_per_second == pytest.approx(475.0, rel=0.02)


def test_fuller_batches_give_more_samples() -> None:
    """A query that catches up shows its throughput with nearly every batch, a calm one after many."""
    calm, busy = free(), free()
    show(calm, TWO, [50, 60, 70, 80] * 12)
    show(busy, TWO, [3000, 4000, 3500, 4500] * 12)
    assert calm.taken < busy.taken / 5
    assert busy.taken > 20


def test_before_the_fixed_time_is_known_long_batches_give_rough_samples() -> None:
    """Equal batches say nothing about the fixed time: those of half the allowed length are taken as they are."""
    short, long = free(), free()
    show(short, TWO, [500] * 40)
    show(long, TWO, [3000] * 40)
    assert short.samples == ()
    assert long.samples
    assert [s.records_per_second for s in long.samples] == pytest.approx([3000 / 6.5] * len(long.samples))
    assert long.sure == frozenset()


def test_better_samples_replace_rough_ones() -> None:
    """Once the fixed time is known, what was taken without it is dropped."""
    samples = free()
    at = show(samples, TWO, [3000] * 30)
    assert samples.samples
    assert not samples.sure
    show(samples, TWO, [2000, 3000, 2500, 3500] * 12, at)
    assert samples.sure == {TWO}
    for sample in samples.samples:
        assert sample.records_per_second == pytest.approx(475.0, rel=0.01)


def test_a_batch_at_its_cap_is_full_however_short() -> None:
    """With a cap no batch gets longer: what a full one does is what is sustained."""
    samples = free(cap=500)
    show(samples, TWO, [500] * 20)
    assert samples.samples[-1].records_per_second == pytest.approx(500 / 1.5)


def test_batches_across_a_change_and_the_first_of_new_executors_do_not_count() -> None:
    """A sample belongs to one allocation."""
    samples = free()
    at = show(samples, TWO, [2000, 3000, 2500, 3500] * 8)
    taken = samples.taken
    samples.watch(a_look(at + 20.0, FOUR, (4000, 19.0)))  # began under two executors
    samples.watch(a_look(at + 40.0, FOUR, (4000, 15.0)))  # the first of new ones
    assert samples.taken == taken
    samples.watch(a_look(at + 45.0, FOUR, (4000, seconds_of(4000, FOUR))))
    samples.watch(a_look(at + 51.0, FOUR, (5500, seconds_of(5500, FOUR))))
    assert {sample.allocation for sample in samples.samples} == {TWO, FOUR}


def test_old_samples_make_room() -> None:
    """Only the newest of each allocation are kept, so that a query that changes is followed."""
    samples = free()
    show(samples, TWO, [3000, 4000, 3500, 4500] * 20)
    assert samples.taken > len(samples.samples) == 12


def test_cpu_per_record_is_a_first_guess() -> None:
    """300 records a second with 60 % of two executors' CPU: 4 ms of one executor each."""
    samples = free()
    for second in range(17):
        samples.watch(a_look(float(second), TWO, utilisation=0.6, processed_rows_per_second=300.0))
    known = samples.seconds_per_record
    assert known is not None
    assert known[0] == pytest.approx(0.004)
    assert known[1] > 0.05  # it is not sure


def test_a_real_time_query_has_no_batches_to_learn_from() -> None:
    """Its batches are as long as they are set to be."""
    samples = free(is_real_time=True)
    show(samples, TWO, [3000, 4000] * 20)
    assert samples.samples == ()


def test_what_a_real_time_query_read_before_its_checkpoint_is_not_of_the_cpu_of_now() -> None:
    """It keeps up with 300 records a second at 60 % of two executors; a minute ago it read 30."""
    samples = free(is_real_time=True)
    for second in range(17):
        look = a_look(
            float(second), TWO, utilisation=0.6, processed_rows_per_second=30.0, arrival_rate_rows_per_second=300.0
        )
        samples.watch(look)
    known = samples.seconds_per_record
    assert known is not None
    assert known[0] == pytest.approx(0.004)
