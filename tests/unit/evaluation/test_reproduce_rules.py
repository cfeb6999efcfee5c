# SPDX-License-Identifier: Apache-2.0
"""The six tests of the dynamic scaling framework (Sec. 5.2.2 to 5.2.7) in the simulator, worked out by hand."""

from __future__ import annotations

from functools import cache

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import experiments_folder
from penstock.evaluation.experiment_kinds import load_experiment, run_experiment
from penstock.evaluation.reproduce_rules import RulesTestResult, run_rules_test
from penstock.evaluation.reproduction import Call
from penstock.evaluation.rules_experiment import RulesExperiment, RulesTest

FOLDER = experiments_folder() / "rules-5.2"
READING = 1.0
"""Seconds from a reading to the next: instants are met to this."""


def the_experiment() -> RulesExperiment:
    """The experiment as it is shipped."""
    experiment = load_experiment(FOLDER)
    assert isinstance(experiment, RulesExperiment)
    return experiment


@cache
def result_of(section: str) -> RulesTestResult:
    """A test, run once."""
    (test,) = the_experiment().narrowed([section]).tests
    return run_rules_test(test, FOLDER)


def changes_of(section: str) -> list[tuple[str, int, int]]:
    """The changes of a test: operator, and the sizes before and after."""
    return [(c.operator, c.current.executors, c.target.executors) for c in result_of(section).changes]


def instants_of(section: str) -> list[float]:
    """When the changes of a test were decided."""
    return [change.at for change in result_of(section).changes]


def queue(section: str, at: int, operator: str = "operator") -> int:
    """The queue length that the reading at a whole second saw."""
    sample = result_of(section).samples[operator][at]
    assert sample.at == at
    assert sample.queue is not None
    return sample.queue


def test_single_operator_scale_out() -> None:
    """5.2.2: 10/s in and 5/s done make 1 + 5 t: above 300 at 60 s, scaled at 90 s, and no growth after that."""
    assert queue("5.2.2", 59) <= 300 < queue("5.2.2", 60)
    assert changes_of("5.2.2") == [("operator", 1, 2)]
    assert instants_of("5.2.2") == pytest.approx([60 + 30], abs=READING)
    assert queue("5.2.2", 90) == pytest.approx(1 + 5 * 90, abs=1)
    assert queue("5.2.2", 200) == pytest.approx(1 + 5 * 90, abs=1)


def test_scale_out_with_additional_capacity() -> None:
    """5.2.3: with 15/s from 90 s on, the 451 records in the queue are done 90 s later."""
    assert changes_of("5.2.3") == [("operator", 1, 3)]
    assert instants_of("5.2.3") == pytest.approx([60 + 30], abs=READING)
    assert queue("5.2.3", 135) == pytest.approx(451 - 5 * 45, abs=1)
    assert queue("5.2.3", 185) <= 1


def test_only_the_bottleneck_is_scaled() -> None:
    """5.2.4: of two operators under the same rule only the one with 5/s is scaled, at 90 s."""
    assert changes_of("5.2.4") == [("slow", 1, 3)]
    assert instants_of("5.2.4") == pytest.approx([60 + 30], abs=READING)
    assert max(queue("5.2.4", at, "fast") for at in range(201)) <= 1


def test_a_threshold_that_is_never_reached() -> None:
    """5.2.5: a peak of 5 s at 20/s leaves 50 records, all peaks 380; 10,000 is never reached and nothing scaled."""
    assert changes_of("5.2.5") == []
    assert queue("5.2.5", 35) - queue("5.2.5", 30) == pytest.approx(5 * (20 - 10), abs=1)
    assert queue("5.2.5", 200) == pytest.approx(1 + 10 * (5 + 10 + 8 + 15), abs=1)


def test_scale_out_and_scale_in_with_peaks() -> None:
    """5.2.6: in each peak out after 10 + 5 s, and in when the queue has been empty for 5 s."""
    assert changes_of("5.2.6") == [("operator", 1, 3), ("operator", 3, 1)] * 3
    peaks = (40, 100, 160)
    # Above 100 after 10 s, for 5 s; 151 records: 5 s at 30 - 20 and 5 s at 30 - 10 a second later one is left.
    due = [instant for peak in peaks for instant in (peak + 10 + 5, peak + 20 + 5 + 1 + 5)]
    assert instants_of("5.2.6") == pytest.approx(due, abs=READING)
    assert queue("5.2.6", 55) == pytest.approx(151, abs=1)
    assert queue("5.2.6", 60) == pytest.approx(101, abs=1)


def test_a_guard_time_keeps_the_size_through_the_peaks() -> None:
    """5.2.7: nothing is taken away for 5 minutes after the scale-out at 55 s, though the queue is empty."""
    assert changes_of("5.2.7") == [("operator", 1, 3), ("operator", 3, 1)]
    # The guard time ends at 355 s, in a peak, whose readings see a record in work; it is empty for 5 s after the peak.
    assert instants_of("5.2.7") == pytest.approx([40 + 10 + 5, 360 + 1 + 5], abs=READING)
    assert queue("5.2.7", 80) == 0
    held = [s.executors for s in result_of("5.2.7").samples["operator"] if 56 <= s.at < 355]
    assert set(held) == {3}


def test_the_experiment_is_reproduced_with_words_and_a_picture() -> None:
    """The command's document has every test as due, with the paper's words, and a picture can be drawn."""
    experiment = the_experiment().narrowed(["5.2.2", "5.2.5"])
    parts: list[float] = []
    found = run_experiment(experiment, Call("rules-5.2", FOLDER, progress=parts.append))
    assert [test["is_as_due"] for test in found.document["tests"]] == [True, True]
    assert "92 s" in found.document["tests"][0]["published"]
    assert found.grids[0].rows[0] is not None
    assert found.grids[0].rows[0][2:4] == ("operator 2 at 90 s", "operator 2 at 90 s")
    assert found.remarks[0].startswith("2 of 2 tests")
    assert parts[-1] == 1.0
    assert found.picture().startswith(b"\x89PNG")


def test_a_change_that_comes_late_is_not_as_due() -> None:
    """The verdict is false where a change comes more than a reading late, or does not come."""
    (test,) = the_experiment().narrowed(["5.2.2"]).tests
    early = test.model_copy(update={"due": (test.due[0].model_copy(update={"at": 88.0}),)})
    found = result_of("5.2.2")
    assert found.is_as_due
    assert not RulesTestResult(early, found.samples, found.changes, READING).is_as_due
    assert not RulesTestResult(test, found.samples, (), READING).is_as_due


def test_wrong_choices_are_refused() -> None:
    """A section that is not there, a seed, and a stream with chance are refused."""
    with pytest.raises(ConfigurationError, match=r"5\.2\.9"):
        the_experiment().narrowed(["5.2.9"])
    with pytest.raises(ConfigurationError, match="--seeds"):
        the_experiment().narrowed(seeds=3)
    (test,) = the_experiment().narrowed(["5.2.2"]).tests
    with pytest.raises(ValueError, match="without chance"):
        RulesTest.model_validate({**test.model_dump(), "stream": "synt:rate=10,duration=60s"})
