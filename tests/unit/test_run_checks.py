# SPDX-License-Identifier: Apache-2.0
"""A settings file that is wrong in several layers."""

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.running.checks import check_run, load_checked
from penstock.running.policy_choice import policy_context
from penstock.settings import parse_settings


def test_mistakes_of_every_layer_show_at_once(tmp_path: Path) -> None:
    """A field, a shape, a policy's option and an app's name are told in one go."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        """
name: logs
arrivals: {shape: "periodic:base=5,peek=9,period=60s,width=20s,duration=2m"}
operators:
  - {name: a, app: "penstock.apps.log_analysis:log_analisys", executers: [1, 2]}
policy: {name: threshold, options: {uper: 0.7}}
"""
    )
    with pytest.raises(ConfigurationError) as fault:
        load_checked(path)
    for word in ("executers", "peek", "uper", "log_analisys"):
        assert word in str(fault.value)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    """A file without mistakes gives its settings."""
    path = tmp_path / "good.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
    )
    assert load_checked(path).name == "p"


def test_what_mead_needs_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Without a latency bound, or with costs that do not fit the levels, the run is refused."""
    path = tmp_path / "mead.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
        "policy: {name: mead, options: {costs: [1.0, 2.0]}}\n"
    )
    settings = load_checked(path)
    assert settings.operators[0].cpu_shares == (0.4, 0.55, 0.7, 0.85, 1.0)
    with pytest.raises(ConfigurationError) as fault:
        check_run(settings)
    assert "objective: mead plans for a latency bound" in str(fault.value)
    path.write_text(path.read_text() + "objective: {p95: 2s}\n")
    with pytest.raises(ConfigurationError, match="2 costs for 5 CPU shares"):
        check_run(load_checked(path))


def test_a_file_that_can_only_be_simulated_says_what_a_run_needs(tmp_path: Path) -> None:
    """One message for every operator without an application, beside all other mistakes."""
    path = tmp_path / "simulated.yaml"
    path.write_text(
        "operators:\n"
        "  - {name: a, service: {distribution: exponential, mean: 1ms}, executers: 3}\n"
        "  - {name: b, input: [arrivals, a], service: {distribution: exponential, mean: 1ms}}\n"
        "policy: {name: threshold, options: {uper: 1}}\n"
    )
    with pytest.raises(ConfigurationError) as fault:
        load_checked(path)
    for words in (
        "name: is missing; to run it",
        "arrivals: is missing; to run it, say what arrives",
        "operators.0.app: is missing; to run it, name its PySpark function",
        "operators.1.app: is missing",
        "operators.1.input: a run reads one input for each operator",
        "operators.0.executers",
        "uper",
    ):
        assert words in str(fault.value)
    with pytest.raises(ConfigurationError, match=r"operators\.0\.app: is missing"):
        check_run(parse_settings({"operators": [{"name": "a"}]}))


def test_declared_demand_is_handed_to_the_policy() -> None:
    """A run's policy is given what the file declares, with trigger and cap, unless that is to be learnt."""
    batch = {"fixed": "200ms", "per_record": "1ms", "driver": "100ms", "cap": 500}
    settings = parse_settings(
        {
            "operators": [
                {"name": "a", "micro_batch": batch, "trigger": "2s", "selectivity": 0.5},
                {"name": "b", "input": "a", "service": {"distribution": "erlang", "phases": 4, "mean": "2ms"}},
                {"name": "c", "input": "a", "micro_batch": batch, "selectivity": 0.5, "demand": "learnt"},
                {"name": "d", "input": "a"},
            ]
        }
    )
    a, b, c, d = policy_context(settings).operators.values()
    assert isinstance(a.demand, BatchDemand)
    assert a.demand.fixed_seconds == pytest.approx(0.3)
    assert a.demand.fixed_cpu_seconds == 0.2
    assert (a.demand.trigger_seconds, a.demand.cap, a.trigger_seconds, a.cap) == (2.0, 500, 2.0, 500)
    assert a.selectivity == 0.5
    assert isinstance(b.demand, RecordDemand)
    assert b.demand.service.mean == pytest.approx(0.002)
    assert b.demand.service.scv == pytest.approx(0.25)
    assert (c.demand, c.selectivity, d.demand, d.selectivity) == (None, None, None, None)


def test_measured_times_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """The field is named, and nothing is started."""
    path = tmp_path / "p.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis',\n"
        "             service: {distribution: samples, file: none.txt}}]\n"
    )
    with pytest.raises(ConfigurationError, match=r"operators\.0\.service\..*none\.txt"):
        check_run(load_checked(path))


def test_a_run_on_yarn_needs_the_clusters_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HADOOP_CONF_DIR has to be set, and to a folder that has them; a spark-env.sh may set it."""
    path = tmp_path / "on-yarn.yaml"
    path.write_text(
        "name: p\ncluster: {master: yarn}\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
    )
    settings = load_checked(path)
    for name in ("YARN_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match=r"needs HADOOP_CONF_DIR, .* it is not set"):
        check_run(settings)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"{tmp_path} has none"):
        check_run(settings)
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    check_run(settings)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-env.sh").write_text("")
    check_run(settings)
