# SPDX-License-Identifier: Apache-2.0
"""The options of the elastic policy, and its file of samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.policies.contexts import a_context

from penstock.errors import ConfigurationError
from penstock.policies import make_policy, policy_entry
from penstock.policies.elastic.options import MEANINGS, elastic_options
from penstock.policies.elastic.policy import ElasticPolicy
from penstock.policies.elastic.sample_file import read_samples
from penstock.records import Allocation, Objective


def test_times_are_read_as_settings_write_them() -> None:
    """Durations may have units; a batch follows the time to catch up, within 30 s, and is as long as the trigger."""
    options = elastic_options(catch_up="2m", every_seconds="10s")
    assert (options.catch_up_seconds, options.every_seconds) == (120.0, 10.0)
    assert (options.batch_of(None), options.batch_of(40.0)) == (30.0, 40.0)
    assert elastic_options(catch_up="30s").batch_of(5.0) == 12.0
    assert elastic_options(batch="5s").batch_of(30.0) == 5.0


def test_a_query_that_keeps_up_has_batches_of_a_sixth_of_the_time_to_catch_up_at_most() -> None:
    """What longer batches hold waits for capacity; a trigger interval is waited for in any case."""
    options = elastic_options(catch_up="60s")
    assert [options.calm_batch_of(seconds, None) for seconds in (0.5, 9.0, 20.0)] == [0.5, 9.0, 10.0]
    assert options.calm_batch_of(0.5, 15.0) == 15.0
    assert elastic_options(catch_up="60s", batch="4s").calm_batch_of(9.0, None) == 4.0


def test_every_option_is_explained() -> None:
    """The registry lists each option with its default and its meaning."""
    listed = {option.name: option for option in policy_entry("elastic").options}
    assert listed.keys() == MEANINGS.keys()
    assert listed["catch_up"].default is None
    assert listed["patience"].default == 0.58


@pytest.mark.parametrize(("options", "seconds"), [({}, 90.0), ({"catch_up": None}, 90.0), ({"catch_up": "2m"}, 120.0)])
def test_the_time_to_catch_up_is_the_objectives(options: dict[str, str | None], seconds: float) -> None:
    """Unless the option says otherwise."""
    policy = make_policy("elastic", a_context(Objective(catch_up_seconds=90.0)), options)
    assert isinstance(policy, ElasticPolicy)
    assert policy.options.catch_up_seconds == seconds


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """Each wrong option is named, with what would be right."""
    wrong = {
        "catch_up": "0s", "patience": 2, "batch": "x", "model": "magic", "samples": str(tmp_path / "none.csv"),
        "confidence": 1.0, "follow_trend": 1, "weigh_changes": "no", "every_seconds": -1,
    }  # fmt: skip
    with pytest.raises(ConfigurationError) as caught:
        make_policy("elastic", a_context(Objective()), wrong)
    for option in wrong:
        assert option in str(caught.value)


def test_samples_are_read(tmp_path: Path) -> None:
    """Columns may stand in any order; without a share it is all of the CPU."""
    file = tmp_path / "samples.csv"
    file.write_text("# measured\nthroughput,executors,cpu_share,run\n900.5,2,0.25,1\n500,1,,2\n")
    two, one = read_samples(file)
    assert (two.allocation, two.records_per_second) == (Allocation(2, 0.25), 900.5)
    assert one.allocation == Allocation(1, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column executors and no column throughput"),
        ("executors,throughput\n", "has no sample"),
        ("executors,throughput\n0,5\n2,-1\n", "line 2: executors.*line 3: throughput"),
        ("executors,throughput,cpu_share\n1,5,2.0\n", "line 2: cpu_share"),
    ],
)
def test_a_wrong_file_shows_its_faults(tmp_path: Path, text: str, words: str) -> None:
    """What is missing or wrong is named by column and line."""
    file = tmp_path / "samples.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=f"(?s){words}"):
        read_samples(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("application,executors,throughput\na,1,5\nb,1,9\n", "samples of a, b; give those of one application"),
        ("executors,throughput,throughput\n1,5,6\n", "column throughput twice"),
        ("executors,throughput\n\n# by night\n1,x\n", "samples, line 4: throughput: 'x'"),
        ("executors,throughput\n1,1e300\n", "samples, line 2: throughput"),
        ("executors,throughput\n1\n", "samples, line 2: throughput: ''"),
    ],
)
def test_samples_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """Samples of several applications, doubled columns and wrong numbers; the line is that of the file."""
    file = tmp_path / "samples.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        read_samples(file)


def test_samples_of_a_spreadsheet_are_read(tmp_path: Path) -> None:
    """A mark at the start of the file, capitals and Windows line ends do no harm."""
    file = tmp_path / "samples.csv"
    file.write_bytes("\ufeffExecutors,Throughput\r\n2,19\r\n".encode())
    assert read_samples(file)[0].records_per_second == 19.0
