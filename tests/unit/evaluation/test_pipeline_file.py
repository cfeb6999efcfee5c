# SPDX-License-Identifier: Apache-2.0
"""A settings file as the simulator takes it: what it may say, and that a wrong one reports all its mistakes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.learnt_demand import learnt_demand
from penstock.evaluation.pipeline_file import PipelineSpec, load_pipeline, parse_pipeline
from penstock.evaluation.policy_text import policy_in
from penstock.knowledge import MemoryStore
from penstock.plan.guards import Cooldown, WithinLimits
from penstock.records import Allocation, Decision, Limits, Objective
from penstock.simulator import MicroBatch, Samples, Service

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted([*(ROOT / "examples" / "pipelines").glob("*.yaml"), ROOT / "examples" / "log-analysis-declared.yaml"])
EXPONENTIAL = {"distribution": "exponential", "mean": "1ms"}


def _one(**operator: Any) -> dict[str, Any]:
    return {"operators": [{"name": "a", **operator}], "objective": {"p95": "1s"}}


def _service(**service: Any) -> Service:
    server = parse_pipeline(_one(service=service)).servers["a"]
    assert not isinstance(server, MicroBatch)
    return server


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_are_valid(path: Path) -> None:
    """Every file that is shipped to be simulated can be: each path has an objective."""
    spec = load_pipeline(path)
    assert set(spec.objectives) == set(spec.pipeline.paths)
    assert all(objective.seconds is not None for objective in spec.objectives.values())


def test_there_are_examples() -> None:
    """The log analysis with its three operators is among them."""
    assert len(EXAMPLES) >= 3
    spec = load_pipeline(next(p for p in EXAMPLES if p.name == "log-analysis.yaml"))
    assert spec.pipeline.paths == (("parser", "counter"), ("parser", "matcher"))
    assert spec.objectives["parser", "matcher"] == Objective("p95", 0.5)
    assert spec.guards == (WithinLimits(),)


@pytest.mark.parametrize(
    ("service", "mean", "scv"),
    [
        ({"distribution": "exponential", "mean": "2ms"}, 2e-3, 1.0),
        ({"distribution": "exp", "mean": 0.002}, 2e-3, 1.0),
        ({"distribution": "erlang", "phases": 4, "mean": "2ms"}, 2e-3, 0.25),
        ({"distribution": "hyper2", "scv": 3, "mean": "2ms"}, 2e-3, 3.0),
        ({"distribution": "deterministic", "mean": "2ms"}, 2e-3, 0.0),
        ({"distribution": "lognormal", "scv": 0.5, "mean": "2ms"}, 2e-3, 0.5),
        ({"distribution": "ph", "alpha": [1, 0], "T": [[-4, 4], [0, -4]]}, 0.5, 0.5),
        ({"distribution": "ph", "alpha": [1, 0], "T": [[-4, 4], [0, -4]], "mean": "2ms"}, 2e-3, 0.5),
        ({"distribution": "samples", "values": ["1ms", "3ms"]}, 2e-3, 0.25),
        ({"distribution": "samples", "values": ["1ms", "3ms"], "mean": "1s"}, 1.0, 0.25),
    ],
    ids=lambda v: str(v.get("distribution")) if isinstance(v, dict) else None,
)
def test_every_distribution_can_be_declared(service: dict[str, Any], mean: float, scv: float) -> None:
    """Declared by family and mean, the work has that mean and variability."""
    made = _service(**service)
    assert made.mean == pytest.approx(mean)
    assert made.scv == pytest.approx(scv)


def test_samples_come_from_a_file_beside_it(tmp_path: Path) -> None:
    """Measured times in a file, in its unit, found from the settings file's folder."""
    (tmp_path / "measured.txt").write_text("1\n2\n6\n")
    (tmp_path / "p.yaml").write_text(
        "operators: [{name: a, service: {distribution: samples, file: measured.txt, unit: ms}}]\n"
        "objective: {mean: 1s}\n"
    )
    server = load_pipeline(tmp_path / "p.yaml").servers["a"]
    assert isinstance(server, Samples)
    assert np.sort(server.values).tolist() == pytest.approx([0.001, 0.002, 0.006])
    (tmp_path / "measured.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"operators\.0\.service.*measured"):
        load_pipeline(tmp_path / "p.yaml")


def _two() -> PipelineSpec:
    return parse_pipeline(
        {
            "operators": [
                {"name": "a", "micro_batch": {"fixed": "200ms", "per_record": "1ms", "cap": 500}, "trigger": "1s",
                 "executors": [1, 4], "start_up": "5s", "cpu_shares": [0.5, 1.0], "selectivity": 0.5},
                {"name": "b", "service": EXPONENTIAL, "input": {"from": "a", "selectivity": 0.25}, "demand": "learnt"},
            ],
            "objectives": [{"path": "a -> b", "objective": {"mean": "3s"}}],
            "guards": {"cooldown_down": "30s"},
        }
    )  # fmt: skip


def test_batches_executors_shares_and_guards() -> None:
    """All of an operator's settings arrive where they belong; shares that it does not set are handed in."""
    spec = _two()
    a, b = spec.pipeline_with((0.25, 1.0)).operators
    assert a.server == MicroBatch(0.2, 0.001, 500, 1.0)
    assert (a.limits, a.start_up_seconds, a.selectivity) == (Limits(1, 4, (0.5, 1.0)), 5.0, 0.5)
    assert b.limits == Limits(1, 1, (0.25, 1.0))
    assert spec.pipeline.operators[1].limits == Limits(1, 1, (0.4, 0.55, 0.7, 0.85, 1.0))
    assert (a.demand_is_known, b.demand_is_known) == (True, False)
    assert spec.pipeline.streams[1].selectivity == 0.25
    assert spec.objectives == {("a", "b"): Objective("mean", 3.0)}
    assert Cooldown(0.0, 30.0) in spec.guards
    assert spec.demand_text == "demand: declared for a; declared, and left to policies to learn, for b"


def test_guards_are_those_of_a_run_unless_there_are_none() -> None:
    """The same file is damped alike on Spark and in the simulator."""
    assert Cooldown(0.0, 10.0) in parse_pipeline(_one(service=EXPONENTIAL)).guards
    assert parse_pipeline(_one(service=EXPONENTIAL) | {"guards": "none"}).guards == (WithinLimits(),)


def test_the_policy_is_the_files_or_the_one_that_plans_for_the_objective() -> None:
    """Named with its options, else the default for what is wanted; an unknown option is told."""
    settings = parse_pipeline(_one(service=EXPONENTIAL)).settings
    assert str(policy_in(settings, [Objective("p95", 1.0)])) == "mead"
    assert str(policy_in(settings, [Objective()])) == "threshold"
    named = _one(service=EXPONENTIAL) | {"policy": {"name": "threshold", "options": {"upper": 0.8}}}
    choice = policy_in(parse_pipeline(named).settings, [])
    assert (str(choice), choice.cpu_shares) == ("threshold:upper=0.8", (1.0,))
    named["policy"]["options"] = {"uper": 1}
    with pytest.raises(ConfigurationError, match="uper"):
        policy_in(parse_pipeline(named).settings, [])


def test_its_own_arrivals_come_as_a_run_would_replay_them(tmp_path: Path) -> None:
    """A shape or a trace with its options, such as speed; a topic's are not known beforehand."""
    data = _one(service=EXPONENTIAL) | {"arrivals": {"shape": "constant:rate=10,duration=10s", "options": {"speed": 2}}}
    name, times = parse_pipeline(data).arrival_times()
    assert name == "constant:rate=10,duration=10s"
    assert len(times) == 100
    assert float(times[-1] - times[0]) == pytest.approx(4.95)
    assert len(parse_pipeline(data).arrival_times(7)[1]) == 7
    (tmp_path / "t.txt").write_text("1\n2\n4\n")
    name, times = parse_pipeline(data | {"arrivals": {"trace": str(tmp_path / "t.txt")}}).arrival_times()
    assert (name, np.diff(times).tolist()) == ("t.txt", [1.0, 2.0])
    for arrivals, broker, words in (
        (None, None, "arrivals: is missing; give --trace"),
        ({"topic": "t"}, {"servers": "h:1"}, "arrivals: what others send is not known beforehand"),
        ({"shape": "constant:rat=1"}, None, "arrivals: shape constant"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            parse_pipeline(data | {"arrivals": arrivals, "broker": broker}).arrival_times()


def _decided(operator: str, at: float, **evidence: Any) -> Decision:
    one = Allocation(1, 1.0)
    return Decision(operator, at, "mead", one, one, "because", evidence)


def test_demand_comes_from_an_earlier_run() -> None:
    """The newest evidence with a demand in it, for operators that declare none or leave it to be learnt."""
    store = MemoryStore()
    store.add_decision(_decided("a", 1.0, fixed_seconds=9.0, per_record_seconds=9.0))
    store.add_decision(_decided("a", 2.0, fixed_seconds=0.4, per_record_seconds=0.001))
    store.add_decision(_decided("a", 3.0, fixed_seconds=None, per_record_seconds=None))
    store.add_decision(_decided("b", 3.0, cpu_seconds_per_record=0.002))
    learnt = learnt_demand(store, "runs/x")
    batch = {"fixed": "1s", "per_record": "1s"}
    operators: list[dict[str, Any]] = [
        {"name": "a", "trigger": "2s"},
        {"name": "b", "input": "a"},
        {"name": "c", "input": "a", "micro_batch": batch},
    ]
    spec = parse_pipeline({"operators": operators}, learnt=learnt)
    assert spec.servers["a"] == MicroBatch(0.4, 0.001, trigger=2.0)
    assert spec.servers["b"].mean == 0.002
    assert spec.servers["c"] == MicroBatch(1.0, 1.0)
    assert [o.demand_is_known for o in spec.pipeline.operators] == [False, False, True]
    assert spec.demand_text == (
        "demand: declared for c; learnt in runs/x for a (400 ms a batch and 1 ms a record), b (2 ms a record)"
    )
    operators[2]["demand"] = "learnt"
    operators.append({"name": "d", "input": "a"})
    with pytest.raises(ConfigurationError) as caught:
        parse_pipeline({"operators": operators}, learnt=learnt)
    assert "operators.2: runs/x has learnt no demand for c; declare" in str(caught.value)
    assert "operators.3: runs/x has learnt no demand for d; declare" in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    """Wrong fields of several operators, shares that fall, an unknown statistic: one error lists them all."""
    with pytest.raises(ConfigurationError) as caught:
        parse_pipeline(
            {
                "operators": [
                    {"name": "A", "service": {"distribution": "erlang", "mean": "1ms"}},
                    {"name": "b", "micro_batch": {"fixed": 0, "per_record": 0}, "cpu_shares": [0.5, 0.4]},
                    {"name": "c", "servce": {}},
                    {"name": "d", "executors": [0, 1], "service": {"distribution": "exponential", "mean": 0}},
                    {"name": "e", "input": "x"},
                ],
                "streams": ["arrivals -> b"],
                "levels": [1.0, 0.5],
                "objective": {"p90": "1s"},
            }
        )
    told = str(caught.value)
    for part in ("operators.0.name", "erlang needs phases", "some work", "operators.1.cpu_shares: [0.5, 0.4] must rise",
                 "operators.2.servce", "operators.3.executors", "operators.3.service", "operators.4.input: 'x'",
                 "streams: is said by the operators now", "levels: is said by the operators now", "p90",
                 "operators.2: what its records cost is not known", "operators.4: what its records cost"):  # fmt: skip
        assert part in told, part


def test_every_operator_without_demand_is_told() -> None:
    """Each with what to add."""
    with pytest.raises(ConfigurationError) as caught:
        parse_pipeline({"operators": [{"name": "a"}, {"name": "b", "input": "a", "demand": "learnt"}]})
    for i in (0, 1):
        assert f"operators.{i}: what its records cost is not known; add `service:" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"operators": [{"name": "a", "input": "a", "service": EXPONENTIAL}]}, "'a' does not stand above it"),
        ({"operators": [{"name": "a", "input": "b", "service": EXPONENTIAL}]}, "'b' is none of arrivals"),
        ({"operators": [{"name": "arrivals", "service": EXPONENTIAL}]}, "is the name of the pipeline's source"),
        ({"operators": []}, "operators"),
        ({"objectives": [{"path": "a -> x", "objective": {"p95": "1s"}}]}, "'a -> x' is not a path; the paths are a"),
        ({"objective": {"p95": "1s", "mean": "1s"}}, "give one statistic"),
        ({"colour": "red"}, "colour: is not a setting"),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], told: str) -> None:
    """A circle, an unknown name, an impossible objective: the message says which and why."""
    with pytest.raises(ConfigurationError, match=told):
        parse_pipeline(_one(service=EXPONENTIAL) | change)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ({"distribution": "normal", "mean": "1ms"}, "exponential"),
        ({"distribution": "exponential", "mean": "1ms", "scv": 2}, "does not take scv"),
        ({"distribution": "exponential", "mean": "1ms", "unit": "ms"}, "does not take unit"),
        ({"distribution": "samples"}, "either values or file"),
        ({"distribution": "hyper2", "mean": "1ms", "scv": 0.5}, "above 1"),
        ({"distribution": "ph", "alpha": [1], "T": [[1]]}, "must be negative"),
        ({"distribution": "samples", "values": [0, 0]}, "all are zero"),
        ({"distribution": "erlang", "mean": "1ms", "phases": 0}, "phases"),
        ({"distribution": "exponential", "mean": 0}, "mean"),
    ],
)
def test_impossible_demands_are_told(service: dict[str, Any], told: str) -> None:
    """A family that does not exist, or parameters it cannot have."""
    with pytest.raises(ConfigurationError, match=told):
        parse_pipeline(_one(service=service))
