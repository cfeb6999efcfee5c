# SPDX-License-Identifier: Apache-2.0
"""The pipeline file: what it may say, and that a wrong one tells all its mistakes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.pipeline_file import load_pipeline, parse_pipeline
from penstock.plan import Cooldown
from penstock.records import Limits, Objective
from penstock.simulator import MicroBatch, Samples, Service

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "pipelines").glob("*.yaml"))


def _one(**operator: Any) -> dict[str, Any]:
    return {
        "operators": [{"name": "a", **operator}],
        "streams": ["arrivals -> a"],
        "objective": {"p95": "1s"},
    }


def _service(**service: Any) -> Service:
    server = parse_pipeline(_one(service=service)).pipeline.operators[0].server
    assert not isinstance(server, MicroBatch)
    return server


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_are_valid(path: Path) -> None:
    """Every pipeline file that is shipped can be simulated: each path has an objective."""
    spec = load_pipeline(path)
    assert set(spec.objectives) == set(spec.pipeline.paths)


def test_there_are_examples() -> None:
    """The log analysis with its three operators is among them."""
    assert len(EXAMPLES) >= 2
    spec = load_pipeline(next(p for p in EXAMPLES if p.name == "log-analysis.yaml"))
    assert spec.pipeline.paths == (("parser", "counter"), ("parser", "matcher"))
    assert spec.objectives["parser", "matcher"] == Objective("p95", 0.5)


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
    """Measured times in a file, in its unit, found from the pipeline file's folder."""
    (tmp_path / "measured.txt").write_text("1\n2\n6\n")
    (tmp_path / "p.yaml").write_text(
        "operators: [{name: a, service: {distribution: samples, file: measured.txt, unit: ms}}]\n"
        "streams: [arrivals -> a]\nobjective: {mean: 1s}\n"
    )
    server = load_pipeline(tmp_path / "p.yaml").pipeline.operators[0].server
    assert isinstance(server, Samples)
    assert np.sort(server.values).tolist() == pytest.approx([0.001, 0.002, 0.006])
    (tmp_path / "measured.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"operators\.0\.service.*measured"):
        load_pipeline(tmp_path / "p.yaml")


def test_batches_executors_levels_and_guards() -> None:
    """All of an operator's settings arrive where they belong; levels of its own come before the pipeline's."""
    spec = parse_pipeline(
        {
            "operators": [
                {"name": "a", "micro_batch": {"fixed": "200ms", "per_record": "1ms", "cap": 500, "trigger": "1s"},
                 "executors": [1, 4], "start_up": "5s", "levels": [0.5, 1.0], "selectivity": 0.5},
                {"name": "b", "service": {"distribution": "exponential", "mean": "1ms"}},
            ],
            "streams": ["arrivals->a", {"from": "a", "to": "b", "selectivity": 0.25}],
            "levels": [0.25, 1.0],
            "objectives": [{"path": "a -> b", "objective": {"mean": "3s"}}],
            "guards": {"cooldown_down": "30s"},
        }
    )  # fmt: skip
    a, b = spec.pipeline.operators
    assert a.server == MicroBatch(0.2, 0.001, 500, 1.0)
    assert (a.limits, a.start_up_seconds, a.selectivity) == (Limits(1, 4, (0.5, 1.0)), 5.0, 0.5)
    assert b.limits == Limits(1, 1, (0.25, 1.0))
    assert spec.pipeline.streams[1].selectivity == 0.25
    assert spec.objectives == {("a", "b"): Objective("mean", 3.0)}
    assert Cooldown(0.0, 30.0) in spec.guards


def test_all_mistakes_are_told_at_once() -> None:
    """Wrong fields of several operators, levels that fall, an unknown statistic: one error lists them all."""
    with pytest.raises(ConfigurationError) as caught:
        parse_pipeline(
            {
                "operators": [
                    {"name": "A", "service": {"distribution": "erlang", "mean": "1ms"}},
                    {"name": "b", "micro_batch": {"fixed": 0, "per_record": 0}, "levels": [0.5, 0.4]},
                    {"name": "c", "servce": {}},
                    {"name": "d", "executors": [0, 1], "service": {"distribution": "exponential", "mean": 0}},
                ],
                "streams": ["arrivals -> b", "x"],
                "levels": [1.0, 0.5],
                "objective": {"p90": "1s"},
            }
        )
    told = str(caught.value)
    for part in ("operators.0.name", "erlang needs phases", "some work", "operators.1.levels: [0.5, 0.4] must rise",
                 "operators.2.servce", "operators.3.executors", "operators.3.service", "streams.1",
                 "levels: [1.0, 0.5]", "p90"):  # fmt: skip
        assert part in told, part


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"streams": ["arrivals -> a", "a -> a"]}, "a -> a is a cycle"),
        ({"streams": ["arrivals -> b"]}, "'b' is not one of"),
        ({"operators": []}, "operators"),
        ({"streams": []}, "streams"),
        ({"objectives": [{"path": "a -> x", "objective": {"p95": "1s"}}]}, "'a -> x' is no path; the paths are a"),
        ({"objective": {"p95": "1s", "mean": "1s"}}, "give one statistic"),
        ({"levels": [0.4, 1.4]}, r"outside \(0, 1\]"),
        ({"colour": "red"}, "colour: is not a setting"),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], told: str) -> None:
    """A cycle, an unknown name, an impossible level: the message says which and why."""
    with pytest.raises(ConfigurationError, match=told):
        parse_pipeline(_one(service={"distribution": "exponential", "mean": "1ms"}) | change)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ({"distribution": "normal", "mean": "1ms"}, "exponential"),
        ({"distribution": "exponential", "mean": "1ms", "scv": 2}, "does not take scv"),
        ({"distribution": "samples"}, "either values or file"),
        ({"distribution": "hyper2", "mean": "1ms", "scv": 0.5}, "above 1"),
        ({"distribution": "ph", "alpha": [1], "T": [[1]]}, "must be negative"),
        ({"distribution": "samples", "values": [0, 0]}, "all are zero"),
    ],
)
def test_impossible_demands_are_told(service: dict[str, Any], told: str) -> None:
    """A family that does not exist, or parameters it cannot have."""
    with pytest.raises(ConfigurationError, match=told):
        parse_pipeline(_one(service=service))
    with pytest.raises(ConfigurationError, match="either `service` or `micro_batch`"):
        parse_pipeline(_one())
