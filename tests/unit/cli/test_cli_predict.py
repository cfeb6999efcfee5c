# SPDX-License-Identifier: Apache-2.0
"""`penstock predict`: sentences, tables, pictures, the contracts of its JSON, and what it says of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.performance.throughput import MODELS as ALL_MODELS

Invoke = Callable[..., Any]
MODELS = ("--models", "inverse-time,polynomial,usl")
"""A few, for the tests' time."""


def throughput(m: float) -> float:
    """What m executors sustain."""
    return 1.0 / (0.016 + 1.05 / m)


@pytest.fixture
def samples(tmp_path: Path) -> str:
    """Four samples of each of five sizes."""
    generator = np.random.default_rng(1)
    lines = [
        f"{m},{throughput(m) * (1 + 0.03 * generator.standard_normal())}" for m in (3, 4, 6, 8, 24) for _ in range(4)
    ]
    path = tmp_path / "samples.csv"
    path.write_text("executors,throughput\n" + "\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def benchmarks(tmp_path: Path) -> str:
    """Two applications at nine sizes."""
    lines = ["application,executors,throughput"]
    for name, curve in (("a", throughput), ("b", lambda m: 0.5 * m - 0.001 * m**2)):
        lines += [f"{name},{m},{curve(m)}" for m in (1, 2, 3, 4, 8, 16, 24, 64, 128) for _ in range(2)]
    path = tmp_path / "benchmarks.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def rates(tmp_path: Path) -> str:
    """Two days of hourly rates."""
    path = tmp_path / "rates.csv"
    values = 8.0 + 6.0 * np.sin(np.arange(48) * 2 * np.pi / 24)
    path.write_text("rate\n" + "".join(f"{value}\n" for value in values))
    return str(path)


def test_fit_prints_its_contract(samples: str, invoke: Invoke) -> None:
    """One object with exactly the named fields; every size of the curve lies in its interval."""
    result = invoke("predict", "fit", "--samples", samples, *MODELS, "--max", "64", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {
        "summary", "models", "chosen", "judged_by", "validation_sizes", "curve", "cpu_share", "coverage", "notes",
    }  # fmt: skip
    assert {frozenset(model) for model in document["models"]} == {
        frozenset({"name", "parameters", "training_error", "validation_error"})
    }
    assert document["chosen"] == document["models"][0]["name"]
    assert {model["name"] for model in document["models"]} == {"inverse-time", "polynomial", "usl"}
    assert [point["executors"] for point in document["curve"]] == list(range(1, 65))
    for point in document["curve"]:
        assert set(point) == {"executors", "throughput", "low", "high"}
        assert 0.0 <= point["low"] <= point["throughput"] <= point["high"]
    assert all(24 < size <= 64 for size in document["validation_sizes"])
    assert result.stderr.splitlines()[0] == document["summary"]


def test_fit_begins_with_a_sentence_and_draws(samples: str, tmp_path: Path, invoke: Invoke) -> None:
    """How many models and samples there are, which is best, and where to measure; then tables and the picture."""
    picture = tmp_path / "fit.png"
    result = invoke("predict", "fit", "--samples", samples, *MODELS, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Of 3 models trained on 20 samples of 5 sizes, ")
    assert "inverse-time" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_validation_samples_decide(samples: str, tmp_path: Path, invoke: Invoke) -> None:
    """With a second file, errors are those at its samples."""
    more = tmp_path / "more.csv"
    more.write_text(f"executors,throughput\n64,{throughput(64)}\n64,{1.01 * throughput(64)}\n")
    result = invoke("predict", "fit", "--samples", samples, "--validation", str(more), *MODELS, "--json")
    document = json.loads(result.stdout)
    assert document["judged_by"] == "validation"
    errors = [model["validation_error"] for model in document["models"]]
    assert errors == sorted(errors)
    assert document["chosen"] in {"inverse-time", "usl"}


def test_size_prints_its_contract(samples: str, invoke: Invoke) -> None:
    """One object with the named fields: the fewest executors, what they cost, and what the next smaller lacks."""
    result = invoke(
        "predict", "size", "--samples", samples, *MODELS, "--rate", "12", "--cost-per-hour", "0.1", "--json"
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {
        "summary", "rate", "executors", "cpu_share", "throughput", "interval", "coverage", "is_enough", "model",
        "reason", "expected_executors", "next_smaller", "cost_per_hour", "notes",
    }  # fmt: skip
    assert document["is_enough"] is True
    assert document["interval"]["low"] >= 12.0
    assert document["next_smaller"]["low"] < 12.0
    assert document["next_smaller"]["short_by_percent"] > 0.0
    assert document["cost_per_hour"] == pytest.approx(0.1 * document["executors"])
    assert 15 <= document["expected_executors"] <= document["executors"] <= 22
    assert document["reason"] in document["summary"]


def test_size_by_expectation_takes_fewer(samples: str, invoke: Invoke) -> None:
    """--by expected goes by the expected throughput alone."""
    call = ("predict", "size", "--samples", samples, *MODELS, "--rate", "12", "--json", "--by")
    by_expected, by_interval = (json.loads(invoke(*call, by).stdout) for by in ("expected", "interval"))
    assert by_expected["executors"] == by_interval["expected_executors"]
    assert by_expected["throughput"] >= 12.0


def test_the_share_to_plan_with_can_be_said(tmp_path: Path, invoke: Invoke) -> None:
    """Executors of half the share are about twice as many; the answer has the share, a note one not measured."""
    path = tmp_path / "shares.csv"
    lines = [f"{m},{share},{100.0 * m * share}" for m in (1, 2, 3, 4) for share in (0.5, 1.0)]
    path.write_text("executors,cpu_share,throughput\n" + "\n".join(lines) + "\n")
    call = ("predict", "size", "--samples", str(path), *MODELS, "--rate", "390", "--json")
    largest, half, less = (json.loads(invoke(*call, *more).stdout) for more in (
        (), ("--cpu-share", "0.5"), ("--cpu-share", "0.2"),
    ))  # fmt: skip
    assert (largest["cpu_share"], half["cpu_share"]) == (1.0, 0.5)
    assert half["executors"] == pytest.approx(2 * largest["executors"], abs=1)
    assert f"{half['executors']} executors x 50% CPU" in half["summary"]
    assert any("no sample has a CPU share of 0.2" in note for note in less["notes"])
    refused = invoke(*call, "--cpu-share", "1.5")
    assert refused.exit_code == 2
    assert "--cpu-share: 1.5 is not above 0 and at most 1" in refused.stderr


def test_the_help_names_every_model(invoke: Invoke) -> None:
    """A model that can be chosen can be found."""
    said = invoke("predict", "fit", "--help").stdout
    assert [name for name in ALL_MODELS if name not in said] == []


def test_a_rate_that_no_size_meets_is_said_so(samples: str, invoke: Invoke) -> None:
    """is_enough is false, for the most executors allowed, and the sentence says it first."""
    result = invoke("predict", "size", "--samples", samples, *MODELS, "--rate", "500", "--max", "32", "--json")
    document = json.loads(result.stdout)
    assert (document["executors"], document["is_enough"], document["expected_executors"]) == (32, False, None)
    assert document["summary"].startswith("No size up to 32 executors is sure to sustain 500")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("executors,throughput\n3,5\n3,5\n3,5.1\n", "one size (3 executors)"),
        ("executors,throughput\n3,5\n", "3 are needed"),
        ("executors,rate\n3,5\n", "no column 'throughput'"),
        ("executors,throughput\n3,x\n4,nan\n", "line 3"),
    ],
)
def test_bad_samples_end_with_exit_code_2(text: str, says: str, tmp_path: Path, invoke: Invoke) -> None:
    """One size, too few samples, missing columns and non-numbers: a clear error and nothing on stdout."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    for command in (("fit",), ("size", "--rate", "3")):
        result = invoke("predict", *command, "--samples", str(path), "--json")
        assert result.exit_code == 2
        assert says in result.stderr
        assert not result.stdout


def test_mistakes_of_options_and_files_come_together(tmp_path: Path, invoke: Invoke) -> None:
    """A negative rate, an impossible coverage and a wrong line are reported at once."""
    path = tmp_path / "bad.csv"
    path.write_text("executors,throughput\n3,x\n")
    result = invoke("predict", "size", "--samples", str(path), "--rate", "-1", "--coverage", "2", "--max", "0")
    assert result.exit_code == 2
    for word in ("4 mistakes", "--rate: -1.0", "--coverage: 2.0", "--max: 0", "line 2"):
        assert word in result.stderr


@pytest.mark.parametrize("rate", ["nan", "inf", "0"])
def test_a_rate_that_is_none_is_refused(rate: str, samples: str, invoke: Invoke) -> None:
    """Rates are finite and above zero."""
    result = invoke("predict", "size", "--samples", samples, *MODELS, "--rate", rate)
    assert result.exit_code == 2
    assert "--rate" in result.stderr


def test_subset_prints_its_contract(benchmarks: str, invoke: Invoke) -> None:
    """The best set within the largest size, and the best for each smaller largest size with falling errors."""
    result = invoke("predict", "subset", "--samples", benchmarks, "--sizes", "3,4", "--max-train", "24", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {
        "summary", "method", "best", "by_max", "sets_tried", "sets_possible", "applications",
    }  # fmt: skip
    assert (document["method"], document["sets_tried"]) == ("exhaustive", 35 + 35)  # 3 and 4 of 7 sizes
    assert document["applications"] == ["a", "b"]
    assert max(document["best"]["sizes"]) <= 24
    errors = [row["error"] for row in document["by_max"]]
    assert errors == sorted(errors, reverse=True)
    assert document["by_max"][-1]["sizes"] == document["best"]["sizes"]


def test_subset_by_chance_and_by_design(benchmarks: str, invoke: Invoke) -> None:
    """Random search finds the same set here; d-optimal needs no samples."""
    call = ("predict", "subset", "--samples", benchmarks, "--sizes", "3", "--max-train", "24", "--json")
    every = json.loads(invoke(*call).stdout)
    chance = json.loads(invoke(*call, "--method", "random", "--draws", "20").stdout)
    assert chance["best"] == every["best"]
    design = json.loads(invoke("predict", "subset", "--method", "d-optimal", "--max-train", "24", "--json").stdout)
    assert design["best"]["sizes"][0] == 1
    assert design["best"]["sizes"][-1] == 24
    assert design["best"]["error"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sizes", "x"), "--sizes"),
        (("--sizes", "9"), "10 are needed"),
        (("--sizes", "\u0663"), "--sizes"),  # three, in digits of another script
        (("--sizes", "9" * 5000), "--sizes"),
        (("--max-train", "1"), "--max-train"),
        (("--max-train", "1000000000000", "--method", "d-optimal"), "--max-train"),
        (("--max-train", "2"), "measure more sizes"),
    ],
)
def test_subset_refuses_what_cannot_be_chosen(
    options: tuple[str, ...], says: str, benchmarks: str, invoke: Invoke
) -> None:
    """Wrong numbers of sizes and too small largest sizes."""
    result = invoke("predict", "subset", "--samples", benchmarks, *options)
    assert result.exit_code == 2
    assert says in result.stderr
    assert invoke("predict", "subset").exit_code == 2


def test_too_few_sizes_to_choose_from_name_the_option(tmp_path: Path, invoke: Invoke) -> None:
    """The default of up to five sizes needs six; with four sampled ones three can be chosen."""
    file = tmp_path / "few.csv"
    file.write_text("executors,throughput\n" + "".join(f"{size},{10 * size}\n" for size in (1, 2, 4, 8)))
    result = invoke("predict", "subset", "--samples", str(file))
    assert result.exit_code == 2
    assert "samples of 4 sizes" in result.stderr
    assert "--sizes 3" in result.stderr
    assert invoke("predict", "subset", "--samples", str(file), "--sizes", "3").exit_code == 0


def test_schedule_prints_its_contract(samples: str, rates: str, tmp_path: Path, invoke: Invoke) -> None:
    """Ten policies with costs and violations; judged by other samples, the model's errors show."""
    picture = tmp_path / "schedule.png"
    call = ("predict", "schedule", rates, "--rate-column", "rate", "--samples", samples, "--max", "64", "--json")
    result = invoke(*call, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) == {
        "summary", "periods", "every_seconds", "delay_seconds", "rate_mean", "rate_max", "model", "judged_by", "notes",
        "policies",
    }  # fmt: skip
    assert (document["periods"], document["every_seconds"], document["delay_seconds"]) == (48, 3600.0, 60.0)
    found = {policy["policy"]: policy for policy in document["policies"]}
    assert len(found) == 10
    assert found["static (peak)"]["violation_percent"] == 0.0
    assert found["elastic (interval)"]["violation_percent"] <= found["elastic (OP: 0%)"]["violation_percent"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    truth = tmp_path / "truth.csv"
    truth.write_text("executors,throughput\n" + "".join(f"{m},{0.7 * throughput(m)}\n" for m in range(1, 65)))
    judged = json.loads(invoke(*call, "--truth", str(truth)).stdout)
    worse = {policy["policy"]: policy for policy in judged["policies"]}
    assert worse["elastic (OP: 0%)"]["violation_percent"] > 90.0


def test_a_truth_of_one_size_is_refused(samples: str, rates: str, tmp_path: Path, invoke: Invoke) -> None:
    """One size says nothing of others: nothing is judged by it."""
    truth = tmp_path / "truth.csv"
    truth.write_text("executors,throughput\n3,10\n3,11\n")
    result = invoke(
        "predict", "schedule", rates, "--rate-column", "rate", "--samples", samples, "--truth", str(truth), "--json"
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--truth: all samples are of 3 executors" in result.stderr


def test_what_a_schedule_cannot_know_is_noted(samples: str, rates: str, tmp_path: Path, invoke: Invoke) -> None:
    """Sizes beyond those of the truth, and a policy that is left out since it never does, are not silent."""
    truth = tmp_path / "truth.csv"
    call = (
        "predict",
        "schedule",
        rates,
        "--rate-column",
        "rate",
        "--samples",
        samples,
        "--truth",
        str(truth),
        "--json",
    )
    truth.write_text("executors,throughput\n" + "".join(f"{m},{throughput(m)}\n" for m in range(1, 121)))
    assert not [note for note in json.loads(invoke(*call).stdout)["notes"] if "truth" in note or "provisioning" in note]
    truth.write_text("executors,throughput\n3,2.7\n4,3.6\n")
    document = json.loads(invoke(*call).stdout)
    assert "elastic (OP: 1% violation)" not in {policy["policy"] for policy in document["policies"]}
    assert "no over-provisioning up to 400 % keeps violations within 1 %" in document["notes"]
    assert any("the truth is measured from 3 to 4 executors" in note for note in document["notes"])


def test_marks_of_the_samples_are_not_silent(samples: str, rates: str, tmp_path: Path, invoke: Invoke) -> None:
    """A throughput that was the source's, not the application's, is noted wherever it is planned with."""
    lines = Path(samples).read_text().splitlines()
    marked = tmp_path / "marked.csv"
    marked.write_text(
        "\n".join([f"{lines[0]},marks", *(f"{line}," for line in lines[1:-1]), f"{lines[-1]},source-bound"])
    )
    note = "--samples: 1 of 20 is marked source-bound: the source was measured, and the application may do more"
    for call in (("fit", *MODELS), ("size", *MODELS, "--rate", "5"), ("schedule", rates, "--rate-column", "rate")):
        result = invoke("predict", *call, "--samples", str(marked), "--json")
        assert result.exit_code == 0, result.output
        assert note in json.loads(result.stdout)["notes"]
        assert note in result.stderr.replace("\n", " ")


def test_schedule_reads_counts(samples: str, tmp_path: Path, invoke: Invoke) -> None:
    """Counts per minute become hourly rates, scaled to a peak."""
    path = tmp_path / "counts.csv"
    path.write_text("count\n" + "".join(f"{count}\n" for count in [600] * 60 + [1200] * 60))
    call = (
        "predict",
        "schedule",
        str(path),
        "--as",
        "counts",
        "--column",
        "count",
        "--unit",
        "m",
        "--samples",
        samples,
    )
    document = json.loads(invoke(*call, "--peak", "8", "--json").stdout)
    assert (document["rate_mean"], document["rate_max"]) == (6.0, 8.0)
    assert invoke(*call, "--peak", "-1").exit_code == 2
    assert invoke(*call, "--every", "7s").exit_code == 2


def test_the_wrong_file_is_named_by_its_option(samples: str, rates: str, tmp_path: Path, invoke: Invoke) -> None:
    """A mistake in the validation samples or in the truth is not said to be in the samples."""
    empty = tmp_path / "empty.csv"
    empty.write_text("executors,throughput\n")
    result = invoke("predict", "fit", "--samples", samples, "--validation", str(empty))
    assert (result.exit_code, "--validation: " in result.stderr) == (2, True)
    call = ("predict", "schedule", rates, "--rate-column", "rate", "--samples", samples, "--truth", str(empty))
    result = invoke(*call)
    assert (result.exit_code, "--truth: " in result.stderr) == (2, True)
    empty.write_text("executors,cpu_share,throughput\n1,0.5,3\n2,0.5,4\n")
    result = invoke(*call)
    assert (result.exit_code, "--truth: it has samples with a cpu_share of 0.5" in result.stderr) == (2, True)


def test_a_folder_is_no_picture(samples: str, tmp_path: Path, invoke: Invoke) -> None:
    """It is refused before models are trained and anything is printed."""
    (tmp_path / "a.png").mkdir()
    result = invoke("predict", "fit", "--samples", samples, *MODELS, "--plot", str(tmp_path / "a.png"))
    assert result.exit_code == 2
    assert "is a folder; name a file in it" in result.stderr
    assert not result.stdout


def test_one_executor_is_not_many(samples: str, invoke: Invoke) -> None:
    """The sentence has the singular."""
    result = invoke("predict", "size", "--samples", samples, *MODELS, "--rate", "0.01", "--json")
    assert json.loads(result.stdout)["summary"].startswith("1 executor for 0.01")


def test_the_schedules_fit_a_narrow_terminal(samples: str, rates: str, invoke: Invoke) -> None:
    """Each policy has one line of at most 80 columns."""
    result = invoke("predict", "schedule", rates, "--rate-column", "rate", "--samples", samples)
    rows = [line for line in result.stdout.splitlines() if line.startswith(("static", "elastic"))]
    assert len(rows) == 10
    assert all(len(line.rstrip()) <= 80 for line in rows)
    assert any(line.startswith("elastic (interval, ahead of rises)") for line in rows)


@pytest.mark.parametrize("cost", ["1e308", "inf", "nan", "-1"])
def test_a_cost_that_is_none_is_refused(cost: str, samples: str, rates: str, invoke: Invoke) -> None:
    """A cost that would make sums infinite is a slip, and no answer."""
    for command in (("size", "--rate", "3"), ("schedule", rates, "--rate-column", "rate")):
        result = invoke("predict", *command, "--samples", samples, "--cost-per-hour", cost)
        assert result.exit_code == 2
        assert "--cost-per-hour" in result.stderr


def test_rates_that_are_read_as_times_name_the_remedy(samples: str, rates: str, invoke: Invoke) -> None:
    """A table of rates without --rate-column is no sorted trace; the message names that option."""
    result = invoke("predict", "schedule", rates, "--column", "rate", "--samples", samples)
    assert result.exit_code == 2
    assert "name that column with --rate-column" in result.stderr


def test_models_that_name_none_are_refused(samples: str, invoke: Invoke) -> None:
    """An empty list is not taken as all models."""
    result = invoke("predict", "fit", "--samples", samples, "--models", " , ")
    assert result.exit_code == 2
    assert "--models" in result.stderr


def test_sizes_that_were_measured_are_not_asked_for_again(samples: str, tmp_path: Path, invoke: Invoke) -> None:
    """Once there are validation samples of all sizes that were wanted, none is wanted, and the sentence says why."""
    call = ("predict", "fit", "--samples", samples, *MODELS, "--max", "64", "--json")
    wanted = json.loads(invoke(*call).stdout)["validation_sizes"]
    assert wanted
    more = tmp_path / "more.csv"
    more.write_text("executors,throughput\n" + "".join(f"{size},{throughput(size)}\n" for size in wanted))
    result = invoke(*call, "--validation", str(more))
    document = json.loads(result.stdout)
    assert document["validation_sizes"] == []
    assert "measured where the models come apart" in document["summary"]
    assert "validation error" in result.stderr
    assert not any("trained on" in note for note in document["notes"])


def test_validation_by_the_training_samples_is_said_so(samples: str, invoke: Invoke) -> None:
    """What a model was trained on does not judge it."""
    result = invoke("predict", "fit", "--samples", samples, "--validation", samples, *MODELS, "--json")
    assert any("sizes that were trained on" in note for note in json.loads(result.stdout)["notes"])


def test_a_size_that_is_enough_by_expectation_alone_is_named(samples: str, invoke: Invoke) -> None:
    """Where the interval never reaches the rate, the sentence says from which size on the expected throughput does."""
    result = invoke("predict", "size", "--samples", samples, "--models", "monotone", "--rate", "40", "--json")
    document = json.loads(result.stdout)
    assert not document["is_enough"]
    assert document["expected_executors"] is not None
    assert f"reaches that with {document['expected_executors']} executors" in document["summary"]


def test_one_application_is_not_many(benchmarks: str, tmp_path: Path, invoke: Invoke) -> None:
    """The sentence counts in plain words."""
    lines = Path(benchmarks).read_text().splitlines()
    only = tmp_path / "only.csv"
    only.write_text("\n".join([lines[0], *(line for line in lines if line.startswith("a,"))]) + "\n")
    assert "sizes of 1 application best" in invoke("predict", "subset", "--samples", str(only), "--sizes", "3").output
