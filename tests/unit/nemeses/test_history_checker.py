# SPDX-License-Identifier: Apache-2.0
"""The checker of nemesis runs finds every loss, copy and displacement that is planted, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.nemeses.checker import Rows, check, read_counts, read_rows, rows_written
from tests.e2e.nemeses.history import Fault, History, HistoryFile, Load

LOAD = Load(records=1000, keys=7, steps=((100.0, 10.0),), epoch=1_000_000.0, seed=3)
FAULT = Fault(4, "driver killed", "keeper", 1_000_010.0, 1_000_025.0, "the first batch came 15 s later")
HISTORY = History(LOAD, (FAULT,))


def all_rows() -> Rows:
    """What comes out where nothing goes wrong: even numbers in one partition, odd ones in the other."""
    numbers = np.arange(LOAD.records, dtype=np.int64)
    return np.stack([numbers, numbers % 2, numbers // 2], axis=1)


def all_counts() -> dict[int, int]:
    """The counts of the same, each by counting."""
    return {key: sum(number % LOAD.keys == key for number in range(LOAD.records)) for key in range(LOAD.keys)}


def test_a_run_without_loss_is_good_in_whatever_order_its_batches_came() -> None:
    """The order of the output does not matter: batches read several partitions."""
    shuffled = np.random.default_rng(1).permutation(all_rows())
    verdict = check(HISTORY, shuffled, all_counts())
    assert verdict.is_good
    assert verdict.explain() == "1,000 numbers, each once and in its place"


def test_the_figures_of_a_run_count_its_faults_and_findings() -> None:
    """Those of a run that was done in pieces are added up."""
    rows = all_rows()
    verdict = check(HISTORY, np.concatenate([rows[3:], rows[10:11]]), all_counts() | {0: 1, 1: 2})
    assert verdict.figures() == {
        "seed": 3, "records": 1000, "faults": {"driver killed": 1},
        "lost": 3, "doubled": 1, "strange": 0, "out_of_place": 0, "wrong_counts": 2,
    }  # fmt: skip
    assert check(HISTORY, rows, None).figures()["wrong_counts"] is None


@pytest.mark.parametrize("missing", [(0,), (999,), (17, 18, 500)])
def test_planted_losses_are_named(missing: tuple[int, ...]) -> None:
    """Also the first and the last number."""
    rows = all_rows()
    verdict = check(HISTORY, rows[~np.isin(rows[:, 0], missing)], all_counts())
    assert verdict.lost == missing
    assert (verdict.doubled, verdict.strange, verdict.out_of_place) == ((), (), ())
    assert not verdict.is_good


@pytest.mark.parametrize("copied", [(0,), (999, 3), (250,) * 4])
def test_planted_copies_are_named_once(copied: tuple[int, ...]) -> None:
    """A number that came out five times is one finding."""
    rows = all_rows()
    verdict = check(HISTORY, np.concatenate([rows, rows[list(copied)]]), all_counts())
    assert verdict.doubled == tuple(sorted(set(copied)))
    assert (verdict.lost, verdict.out_of_place) == ((), ())
    assert not verdict.is_good


def test_numbers_that_were_never_sent_are_strange() -> None:
    """Below zero and at the end of the range too."""
    rows = np.concatenate([all_rows(), [[-1, 0, 0], [LOAD.records, 0, 600], [10**12, 1, 601]]])
    verdict = check(HISTORY, rows, all_counts())
    assert verdict.strange == (-1, LOAD.records, 10**12)
    assert not verdict.is_good


def test_a_number_behind_a_higher_one_of_its_partition_is_out_of_place() -> None:
    """Two that stand in each other's place are one step back; other partitions do not matter."""
    rows = all_rows()
    rows[[10, 12], 2] = rows[[12, 10], 2]
    verdict = check(HISTORY, rows, all_counts())
    assert verdict.out_of_place == (10,)
    assert (verdict.lost, verdict.doubled) == ((), ())
    assert not verdict.is_good


def test_a_place_that_two_numbers_have_is_out_of_place() -> None:
    """A topic has one record at each offset."""
    rows = all_rows()
    rows[14, 2] = rows[12, 2]
    assert check(HISTORY, rows, all_counts()).out_of_place == (14,)


def test_a_number_that_was_sent_twice_is_doubled_with_both_its_places() -> None:
    """The copy stands at the end of its partition, behind all others."""
    rows = np.concatenate([all_rows(), [[6, 0, 500]]])
    verdict = check(HISTORY, rows, all_counts())
    assert verdict.doubled == (6,)
    assert verdict.out_of_place == (6,)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [({3: 142}, {3: (142, 143)}), ({6: None}, {6: (0, 142)}), ({99: 1}, {99: (1, 0)})],
)
def test_counts_that_are_not_exact_are_named(change: dict[int, int | None], wrong: dict[int, tuple[int, int]]) -> None:
    """One too few, a key that is missing, and one that should not be there."""
    counts = {key: count for key, count in {**all_counts(), **change}.items() if count is not None}
    verdict = check(HISTORY, all_rows(), counts)
    assert verdict.wrong_counts == wrong
    assert not verdict.is_good


def test_a_state_without_counts_is_not_good() -> None:
    """What is missing is never read as zero, nor as all being well."""
    verdict = check(HISTORY, all_rows(), None)
    assert not verdict.is_good
    assert "no counts" in verdict.explain()


def test_nothing_that_came_out_is_everything_lost() -> None:
    """An empty output is judged like any other."""
    verdict = check(HISTORY, np.empty((0, 3), dtype=np.int64), {})
    assert len(verdict.lost) == LOAD.records
    assert "and 980 more" in verdict.explain()


def test_a_finding_comes_with_the_faults_around_it() -> None:
    """Number 150 was due 15 s after the start, in the fault; number 900 long after it."""
    rows = all_rows()
    text = check(HISTORY, rows[~np.isin(rows[:, 0], [150, 900])], all_counts()).explain()
    assert "150 (sent around fault 4, driver killed (keeper), 15 s)" in text
    assert "900 (no fault when it was sent)" in text


def test_a_number_is_due_in_its_step() -> None:
    """The rate rises after ten seconds; what lies behind the last step is due at its end."""
    load = Load(records=40, keys=7, steps=((10.0, 1.0), (10.0, 3.0)), epoch=100.0, seed=3)
    assert [load.due_at(number) for number in (0, 9, 10, 13, 39, 40, 99)] == [
        100.0, 109.0, 110.0, 111.0, 110.0 + 29 / 3, 120.0, 120.0,
    ]  # fmt: skip


def test_a_history_is_whole_up_to_the_line_that_was_cut_off(tmp_path: Path) -> None:
    """Whatever ends the test, the faults before it can be read."""
    file = HistoryFile(tmp_path / "history.jsonl", LOAD)
    undone = Fault(5, "disk full", "run folder", 1.0, 1.0, "needs root", is_done=False)
    file.add(FAULT)
    file.add(undone)
    with (tmp_path / "history.jsonl").open("a") as broken:
        broken.write('{"number": 6, "ki')
    history = History.read(tmp_path / "history.jsonl")
    assert history == History(LOAD, (FAULT, undone))
    assert history.times() == {"driver killed": 1, "disk full": 0}
    assert history.around(1.0, 5.0) == ()


def test_files_of_batches_are_read_as_one(tmp_path: Path) -> None:
    """Drafts of batches that were cut off do not count; of the counts the newest batch has the last word."""
    rows = all_rows()
    (tmp_path / "0.places").write_bytes(rows[:600].tobytes())
    (tmp_path / "10.places").write_bytes(rows[600:].tobytes())
    (tmp_path / "11.draft").write_bytes(b"cut off")
    assert rows_written(tmp_path) == LOAD.records
    assert check(HISTORY, read_rows(tmp_path), all_counts()).is_good
    assert read_counts(tmp_path) is None
    (tmp_path / "9.json").write_text(json.dumps({"0": 1}))
    (tmp_path / "10.json").write_text(json.dumps(all_counts()))
    assert read_counts(tmp_path) == all_counts()
    assert len(read_rows(tmp_path / "nowhere")) == 0
