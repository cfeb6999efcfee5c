# SPDX-License-Identifier: Apache-2.0
"""`penstock simulate`: the contract of its JSON, its table and picture, and what it says of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PIPELINE = """
operators:
  - name: parser
    service: {distribution: erlang, phases: 2, mean: 4ms}
    selectivity: 0.9
    cpu_shares: &levels [0.4, 0.55, 0.7, 0.85, 1.0]
  - {name: counter, input: parser, service: {distribution: exponential, mean: 2ms}, cpu_shares: *levels}
  - {name: matcher, input: parser, service: {distribution: deterministic, mean: 8ms}, cpu_shares: *levels}
guards: none
"""
TIMES = np.cumsum(np.random.default_rng(1).standard_exponential(6000) / 50.0)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A trace of arrival times in seconds, and a pipeline without an objective."""
    trace, pipeline = tmp_path / "arrivals.txt", tmp_path / "pipeline.yaml"
    trace.write_text("".join(f"{t:.9f}\n" for t in TIMES.tolist()))
    pipeline.write_text(PIPELINE)
    return trace, pipeline


def test_the_json_is_what_other_tools_read(files: tuple[Path, Path], invoke: Callable[..., Any]) -> None:
    """One object with the named fields; the same seed gives the same, another seed another."""
    common = ("simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--objective", "p95=0.5", "--json")
    result = invoke(*common, "--policy", "threshold", "--seed", "3")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    named = {"policy", "latency", "paths", "cpu_share_mean", "cpu_share", "violation_time_share", "decisions", "seed"}
    assert named <= set(document)
    assert (document["policy"], document["seed"]) == ("threshold", 3)
    assert set(document["paths"]) == {"parser -> counter", "parser -> matcher"}
    for latency in (document["latency"], *document["paths"].values()):
        assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"]
        assert latency["mean"] > 0
    assert set(document["cpu_share"]) == {"parser", "counter", "matcher"}
    assert 0.4 <= document["cpu_share_mean"] < 1.0
    assert 0.0 <= document["violation_time_share"] <= 1.0
    assert document["decisions"] > 0
    assert json.loads(invoke(*common, "--policy", "threshold", "--seed", "3").stdout) == document
    assert json.loads(invoke(*common, "--policy", "threshold", "--seed", "4").stdout)["latency"] != document["latency"]


def test_several_policies_give_a_list_a_table_and_a_picture(
    files: tuple[Path, Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """Each policy is one object of the list and one row of the table; options stand in its name."""
    png = tmp_path / "runs.png"
    policies = ("static", "threshold:upper=0.9,lower=0.6")
    arguments = ["simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--objective", "mean=200ms"]
    for policy in policies:
        arguments += ["--policy", policy]
    result = invoke(*arguments, "--plot", str(png), "--json")
    assert result.exit_code == 0, result.output
    documents = json.loads(result.stdout)
    assert [d["policy"] for d in documents] == list(policies)
    assert documents[0]["cpu_share_mean"] == 1.0 > documents[1]["cpu_share_mean"]
    assert png.read_bytes().startswith(b"\x89PNG")
    table = invoke(*arguments)
    assert "parser -> matcher" in " ".join(table.stdout.split())
    assert "static" in table.stdout


def test_kinds_and_units_give_the_same_run(
    files: tuple[Path, Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """Arrivals in seconds, in microseconds, and inter-arrival times are the same trace."""
    micros, gaps = tmp_path / "micros.txt", tmp_path / "iats.txt"
    micros.write_text("".join(f"{t * 1e6:.3f}\n" for t in TIMES.tolist()))
    gaps.write_text("".join(f"{g:.12f}\n" for g in np.diff(TIMES, prepend=0.0).tolist()))
    found = []
    for file, *more in ((files[0],), (micros, "--unit", "us"), (gaps, "--as", "iats")):
        result = invoke("simulate", "--trace", str(file), *more, "--pipeline", str(files[1]), "--policy", "static",
                        "--objective", "p95=1", "--json")  # fmt: skip
        found.append(json.loads(result.stdout))
    assert [d["records"] for d in found] == [6000] * 3
    for other in found[1:]:
        assert other["latency"]["mean"] == pytest.approx(found[0]["latency"]["mean"], rel=1e-5)
    few = invoke("simulate", "--trace", str(gaps), "--as", "iats", "--pipeline", str(files[1]), "--policy", "static",
                 "--objective", "p95=1", "--records", "100", "--json")  # fmt: skip
    assert json.loads(few.stdout)["records"] == 100


@pytest.mark.parametrize(
    ("arguments", "pipeline", "words"),
    [
        (["--objective", "p95=0.001"], PIPELINE, "impossible on the path"),
        (["--policy", "mead"], PIPELINE, "the path parser -> counter has none"),
        (["--objective", "p95=1", "--analysis", "soon"], PIPELINE, "--analysis"),
        (["--objective", "p95=1", "--policy", "threshold:uper=1"], PIPELINE, "uper: threshold has no such option"),
        (["--objective", "p95"], PIPELINE, "--objective"),
        (["--objective", "p90=1"], PIPELINE, "unknown statistic"),
        (["--objective", "p95=1", "--policy", "clever"], PIPELINE, "unknown policy"),
        (["--objective", "p95=1", "--interval", "0s"], PIPELINE, "interval"),
        (
            ["--objective", "p95=1", "--policy", "static", "--interval", "0"],
            PIPELINE,
            "--interval: '0' is not above 0; give a time such as 1s",
        ),
        (["--objective", "p95=1", "--plot", "runs"], PIPELINE, "--plot: runs is not a picture's name"),
        (
            ["--objective", "p95=1"],
            PIPELINE + "streams: [arrivals -> parser]\n",
            "streams: is said by the operators now: give each the `input` it reads from",
        ),
        (
            ["--objective", "p95=1"],
            PIPELINE.replace("selectivity: 0.9", "input: matcher"),
            "circle",
        ),
        (["--objective", "p95=1"], PIPELINE.replace("&levels [0.4, ", "&levels [0.9, "), "must rise"),
        (["--objective", "p95=1", "--plot", "nowhere/x.png"], PIPELINE, "is not a folder"),
        (
            ["--objective", "p95=1", "--unit", "us", "--as", "arrivals", "--trace", "missing.txt"],
            PIPELINE,
            "missing.txt",
        ),
    ],
)
def test_bad_input_is_reported_and_nothing_is_run(
    files: tuple[Path, Path],
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    arguments: list[str],
    pipeline: str,
    words: str,
) -> None:
    """Exit code 2 and one message that says what is impossible and why."""
    monkeypatch.chdir(files[0].parent)  # where a demo ran there is a folder `runs`
    files[1].write_text(pipeline)
    result = invoke(
        "simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--policy", "threshold", *arguments
    )
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())


def test_every_wrong_policy_is_reported_before_the_trace_is_read(
    files: tuple[Path, Path], invoke: Callable[..., Any]
) -> None:
    """A right policy is not simulated for minutes before a wrong one is found, and all wrong ones are listed."""
    files[0].unlink()
    common = ("simulate", "--trace", str(files[0]), str(files[1]), "--objective", "p95=1", "--policy", "threshold")
    result = invoke(*common, "--policy", "mead:rescue=maybe", "--policy", "threshold:upper=2")
    assert result.exit_code == 2
    assert "2 mistakes" in result.stderr
    assert "mead:rescue=maybe: rescue: 'maybe' is not a switch" in result.stderr
    assert "threshold:upper=2: upper: 2.0 is outside" in result.stderr
    unread = invoke(*common, "--policy", "clever", "--policy", "mead:costs=[1")
    assert "clever: unknown policy" in unread.stderr
    assert "mead:costs=[1: cannot read" in unread.stderr
    assert "--analysis" in invoke(*common, "--analysis", "soon").stderr


def test_a_note_about_several_policies_is_printed_once(files: tuple[Path, Path], invoke: Callable[..., Any]) -> None:
    """Two settings of a policy that reads no objective need one line."""
    result = invoke("simulate", "--trace", str(files[0]), str(files[1]), "--objective", "p95=1", "--records", "50",
                    "--policy", "threshold", "--policy", "threshold:upper=0.5,lower=0.3")  # fmt: skip
    assert result.stdout.count("does not look at the objective") == 1


def test_the_picture_names_trace_and_pipeline(
    files: tuple[Path, Path], tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heading of the table is the title of the picture: trace, pipeline, records and objective."""
    from matplotlib.figure import Figure

    titles: list[str] = []
    monkeypatch.setattr(Figure, "suptitle", lambda _, text, **__: titles.append(text))
    result = invoke(
        "simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--policy", "static", "--records", "500",
        "--objective", "p95=1", "--plot", str(tmp_path / "x.png"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert titles[0].startswith("arrivals.txt on pipeline: 500 records")


EXAMPLE = Path(__file__).parents[3] / "examples" / "log-analysis-declared.yaml"
WHOLE = """
name: whole
arrivals: {shape: "constant:rate=20,duration=60s", options: {speed: 2}}
operators:
  - {name: matcher, service: {distribution: exponential, mean: 8ms}}
objective: {p95: 1s}
"""


def test_one_file_is_run_and_simulated(invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same example passes the checks of a run, and is simulated on its own arrivals."""
    monkeypatch.chdir(EXAMPLE.parents[1])
    checked = invoke("run", "--check", str(EXAMPLE))
    assert checked.exit_code == 0, checked.output
    simulated = invoke("simulate", str(EXAMPLE), "--policy", "threshold", "--json")
    assert simulated.exit_code == 0, simulated.output
    document = json.loads(simulated.stdout)
    assert document["records"] == 96_000
    assert set(document["paths"]) == {"parser -> counter", "parser -> matcher"}
    assert "demand: declared, and left to policies to learn, for parser, counter, matcher" in simulated.stderr


def test_the_file_alone_says_everything(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Arrivals with their speed, the policy and its levels are the file's, where the command says nothing else."""
    file = tmp_path / "whole.yaml"
    file.write_text(WHOLE + "policy: {name: threshold, options: {upper: 0.9, lower: 0.6}}\n")
    result = invoke("simulate", str(file), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["policy"], document["records"]) == ("threshold:upper=0.9,lower=0.6", 1200)
    assert 29.5 <= document["seconds"] < 32.0
    assert document["cpu_share_mean"] == 1.0  # threshold has no levels of its own
    assert "the policy threshold does not look at the objective (p95 <= 1.00 s)" in result.stderr
    assert "nothing can be scaled" in result.stderr
    file.write_text(WHOLE)
    planned = invoke("simulate", "--pipeline", str(file), "--records", "100", "--json")
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["policy"] == "mead"
    assert "does not look at the objective" not in planned.stderr
    compared = invoke("simulate", str(file), "--policy", "static", "--policy", "threshold", "--json")
    shares = [document["cpu_share_mean"] for document in json.loads(compared.stdout)]
    assert shares[0] == 1.0 > shares[1]  # those of the paper, for all that are compared


def test_demand_is_taken_from_a_run(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """What a run's policy has learnt is simulated, and said; what it has not is a mistake for each operator."""
    from penstock.knowledge import SqliteStore
    from penstock.records import Allocation, Decision

    run, file, one = tmp_path / "run", tmp_path / "whole.yaml", Allocation(1, 1.0)
    run.mkdir()
    store = SqliteStore(run / "knowledge.sqlite")
    evidence = {"fixed_seconds": 0.2, "per_record_seconds": 0.001}
    store.add_decision(Decision("matcher", 1.0, "mead", one, one, "because", evidence))
    store.close()
    undeclared = WHOLE.replace(", service: {distribution: exponential, mean: 8ms}", "")
    file.write_text(undeclared)
    result = invoke("simulate", str(file), "--policy", "static", "--from-run", str(run))
    assert result.exit_code == 0, result.output
    assert f"demand: learnt in {run} for matcher (200 ms a batch and 1 ms a record)" in result.stdout
    by_file = invoke("simulate", str(file), "--policy", "static", "--from", str(run / "knowledge.sqlite"))
    assert by_file.exit_code == 0, by_file.output
    missing = invoke("simulate", str(file), "--policy", "static")
    assert missing.exit_code == 2
    assert "operators.0: what its records cost is not known; add `service:" in " ".join(missing.stderr.split())
    file.write_text(undeclared.replace("name: matcher", "name: other"))
    other = invoke("simulate", str(file), "--policy", "static", "--from-run", str(run))
    assert other.exit_code == 2
    assert "has learnt no demand for other" in " ".join(other.stderr.split())
    nowhere = invoke("simulate", str(file), "--from", str(tmp_path / "nowhere"))
    assert "--from:" in nowhere.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Name the settings file, as in"),
        (["FILE", "--pipeline", "FILE"], "Name the settings file once"),
        (["FILE", "--unit", "us"], "--unit: says how --trace is read"),
        (["BARE"], "arrivals: is missing; give --trace FILE"),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, invoke: Callable[..., Any], arguments: list[str], told: str) -> None:
    """No file, one twice, options of a trace that is not there, or no arrivals at all."""
    (tmp_path / "FILE").write_text(WHOLE)
    (tmp_path / "BARE").write_text(
        WHOLE.replace('arrivals: {shape: "constant:rate=20,duration=60s", options: {speed: 2}}', "")
    )
    result = invoke("simulate", *(str(tmp_path / text) if text.isupper() else text for text in arguments))
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


def test_without_an_objective_a_pipeline_has_to_keep_up(files: tuple[Path, Path], invoke: Callable[..., Any]) -> None:
    """No bound at all is a goal too: each path is judged by whether records get too old."""
    result = invoke(
        "simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--policy", "threshold", "--json"
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["met"] is True
    for path in document["paths"].values():
        assert path["objective"] == {"statistic": None, "seconds": None}
        assert path["met"] is True
    assert "objective keep up" in " ".join(result.stderr.split())


def test_an_analysis_takes_as_long_as_it_is_said_to(files: tuple[Path, Path], invoke: Callable[..., Any]) -> None:
    """MEAD's plans are in force later where its analyses take longer, so it saves less."""
    shares = []
    for seconds in ("0s", "40s"):
        result = invoke(
            "simulate", "--trace", str(files[0]), "--pipeline", str(files[1]), "--objective", "p95=1",
            "--policy", "mead-published:window=1000,best=1,max_states=2,every_seconds=20s", "--analysis", seconds,
            "--json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        shares.append(json.loads(result.stdout)["cpu_share_mean"])
    assert shares[0] < shares[1] < 1.0


def test_rules_in_a_module_beside_the_settings_file(files: tuple[Path, Path], invoke: Callable[..., Any]) -> None:
    """`my_rules:calm` is found beside the file, as in a run, and what the module prints does not spoil the JSON."""
    code = (
        "from penstock.rules import metric, rule\n"
        "print('hello')\n"
        'calm = [rule("low").keep("matcher").at_most(1), rule("in").scale_in("*").by(1).when(metric("cpu_used") < 1)]\n'
    )
    (files[1].parent / "rules_to_simulate_in_a_test.py").write_text(code)
    common = ("simulate", str(files[1]), "--trace", str(files[0]), "--records", "50", "--json")
    named = invoke(*common, "--policy", "rules:rules=rules_to_simulate_in_a_test:calm")
    assert named.exit_code == 0, named.output
    assert json.loads(named.stdout)["decisions"] == 0
    files[1].write_text(PIPELINE + "policy: {name: rules, rules: 'rules_to_simulate_in_a_test:calm'}\n")
    assert invoke(*common).exit_code == 0


def test_the_path_of_a_rules_file_does_not_break_the_table(
    files: tuple[Path, Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """The table shows the file's name on one line; the JSON keeps the whole path."""
    folder = tmp_path / "a-folder-with-a-rather-long-name" / "and-another-one-within-it"
    folder.mkdir(parents=True)
    (folder / "mine.rules").write_text('rule "in":\n  scale-in * by 1\n  when cpu_used below 1 for 5 seconds\n')
    common = ("simulate", str(files[1]), "--trace", str(files[0]), "--records", "50")
    policy = f"rules:rules={folder / 'mine.rules'}"
    shown = invoke(*common, "--policy", policy)
    assert shown.exit_code == 0, shown.output
    assert "rules:rules=mine.rules" in shown.output
    assert json.loads(invoke(*common, "--policy", policy, "--json").stdout)["policy"] == policy
