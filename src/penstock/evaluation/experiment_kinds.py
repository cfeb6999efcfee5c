# SPDX-License-Identifier: Apache-2.0
"""The kinds of experiments: what the file of each kind may say, and how it is run.

To add a kind, write a subclass of `Experiment` whose `kind` is a Literal of its name, and a function that takes the
experiment and a `Call` and returns a `Reproduction`; then name both in `KINDS`. The command needs no change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.errors import ConfigurationError
from penstock.evaluation.delay_law_experiment import DelayLawExperiment, PlacedExperiment
from penstock.evaluation.experiment_file import CONFIG, CurveExperiment, Experiment, TableExperiment
from penstock.evaluation.frontier_experiment import FrontierExperiment
from penstock.evaluation.live_experiment import DynamicExperiment, StaticExperiment
from penstock.evaluation.live_scalers_experiment import LiveScalersExperiment
from penstock.evaluation.measured_experiment import MeasuredExperiment
from penstock.evaluation.real_time_law_experiment import RealTimeLawExperiment
from penstock.evaluation.reconfiguration_experiment import ReconfigurationExperiment
from penstock.evaluation.reproduction import Call, Reproduction
from penstock.evaluation.rules_experiment import RulesExperiment
from penstock.evaluation.scaler_experiment import ScalersExperiment
from penstock.evaluation.throughput_experiment import ScheduleExperiment, SubsetsExperiment, ThroughputExperiment
from penstock.settings import read_settings


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of experiment.

    Parameters
    ----------
    file
        What its `config.yaml` may say.
    run
        Does it again. It imports what it needs when it is called: a list of experiments loads no solver.
    """

    file: type[Experiment]
    run: Callable[[Any, Call], Reproduction]


def _table(experiment: TableExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_table import reproduce_table

    return reproduce_table(experiment, call)


def _frontier(experiment: FrontierExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_frontier import reproduce_frontier

    return reproduce_frontier(experiment, call)


def _curve(experiment: CurveExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_curve import reproduce_curve

    return reproduce_curve(experiment, call)


def _rules(experiment: RulesExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_rules import reproduce_rules

    return reproduce_rules(experiment, call)


def _static(experiment: StaticExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_static import reproduce_static

    return reproduce_static(experiment, call)


def _dynamic(experiment: DynamicExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_dynamic import reproduce_dynamic

    return reproduce_dynamic(experiment, call)


def _subsets(experiment: SubsetsExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_subsets import reproduce_subsets

    return reproduce_subsets(experiment, call)


def _throughput(experiment: ThroughputExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_throughput import reproduce_throughput

    return reproduce_throughput(experiment, call)


def _schedule(experiment: ScheduleExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_schedule import reproduce_schedule

    return reproduce_schedule(experiment, call)


def _scalers(experiment: ScalersExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_scalers import reproduce_scalers

    return reproduce_scalers(experiment, call)


def _live_scalers(experiment: LiveScalersExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_live_scalers import reproduce_live_scalers

    return reproduce_live_scalers(experiment, call)


def _measured(experiment: MeasuredExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_measured import reproduce_measured

    return reproduce_measured(experiment, call)


def _delay_law(experiment: PlacedExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_delay_law import reproduce_delay_law

    return reproduce_delay_law(experiment, call)


def _reconfiguration(experiment: ReconfigurationExperiment, call: Call) -> Reproduction:
    from penstock.evaluation.reproduce_reconfiguration import reproduce_reconfiguration

    return reproduce_reconfiguration(experiment, call)


KINDS = {
    "table": Kind(TableExperiment, _table),
    "curve": Kind(CurveExperiment, _curve),
    "frontier": Kind(FrontierExperiment, _frontier),
    "rules": Kind(RulesExperiment, _rules),
    "static-scaling": Kind(StaticExperiment, _static),
    "dynamic-scaling": Kind(DynamicExperiment, _dynamic),
    "size-subsets": Kind(SubsetsExperiment, _subsets),
    "throughput-models": Kind(ThroughputExperiment, _throughput),
    "elastic-schedule": Kind(ScheduleExperiment, _schedule),
    "auto-scalers": Kind(ScalersExperiment, _scalers),
    "auto-scalers-live": Kind(LiveScalersExperiment, _live_scalers),
    "measured-throughput": Kind(MeasuredExperiment, _measured),
    "delay-law": Kind(DelayLawExperiment, _delay_law),
    "delay-law-real-time": Kind(RealTimeLawExperiment, _delay_law),
    "reconfiguration": Kind(ReconfigurationExperiment, _reconfiguration),
}


def load_experiment(folder: Path) -> Experiment:
    """Read an experiment's file; ConfigurationError with every mistake."""
    path = folder / CONFIG
    data = read_settings(path)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise ConfigurationError(f"{path}: kind: {kind!r} is none of {known}", field="kind")
    try:
        return KINDS[kind].file.model_validate(data)
    except ValidationError as fault:
        faults = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in fault.errors()]
        raise ConfigurationError.of_all(str(path), faults) from fault


def run_experiment(experiment: Experiment, call: Call) -> Reproduction:
    """Do an experiment again, as its kind is done."""
    return KINDS[experiment.kind].run(experiment, call)
