# SPDX-License-Identifier: Apache-2.0
"""One analysis and plan as MEAD makes it every minute, how far heuristics are from the optimum, how far the network is.

1. Seconds of one core from a full buffer of inter-arrival times to a plan, by stage. Bar: under 5 s.
2. Cost of the heuristics' plans over the cheapest one's, on random pipelines.
3. Two queues in a row: the network's mean and 95th percentile against simulation.
4. Plans against the cheapest shares that keep the bound when the window itself is replayed, known in hindsight.
5. Seconds of one core for a plan over the number of operators, with 8 levels. Bar: 50 operators within 5 s.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, as the bar says; before numpy is loaded

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.fit.traces import KNOWN, bc_paug89, cloudphysics, data_folder

from penstock.markov import MAP, PH
from penstock.monitor.iat_windows import IatWindows
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.screening import worst_processes
from penstock.plan.exact_search import exact_search
from penstock.plan.levels import AllocationSpace, Levels
from penstock.policies.mead.analysis import AnalysisTask, analyse
from penstock.policies.mead.options import MeadOptions, Queues
from penstock.policies.mead.planner import MeadPlanner, PipelinePlan, Search
from penstock.policies.mead.search import figure_5, refined
from penstock.records import Allocation, Limits, Objective
from penstock.testing.path_latencies import FakePathLatency, single_executors
from penstock.workload import FittedWorkload, estimate_workload, fit_maps

FloatArray = npt.NDArray[np.float64]
N_E = 50_000
LOADS = {"parser": 0.15, "counter": 0.08, "matcher": 0.30}
"""Utilisation of each operator at full share, at the rate of the busiest window."""
SEARCHES: tuple[Search, ...] = ("published", "refined", "exact")


def labelled(estimate: FittedWorkload) -> dict[str, MAP]:
    """The processes of all windows, by window and rank."""
    return {
        f"window {window.n}, fit {rank}, {fitted.states} states": fitted.map
        for window in estimate.windows
        for rank, fitted in enumerate(window.fit.maps, start=1)
    }


def log_analysis(rate: float, bound: float, kind: str) -> PipelineModel:
    """The parser feeds a counter and a matcher; demands such that the loads are as told."""

    def demand(load: float) -> Demand:
        if kind == "records":
            return RecordDemand(PH.erlang(2, mean=load / rate))
        return BatchDemand(fixed_seconds=0.4, per_record_seconds=load / rate, fixed_cpu_seconds=0.28)

    return PipelineModel(
        [
            OperatorModel("parser", demand(LOADS["parser"])),
            OperatorModel("counter", demand(LOADS["counter"]), ("parser",)),
            OperatorModel("matcher", demand(LOADS["matcher"]), ("parser",)),
        ],
        Objective("p95", bound),
    )


def one_pass(stream: FloatArray, kind: str, search: Search, warm: FittedWorkload | None) -> dict[str, Any]:
    """One analysis and plan, timed by stage; the bound is twice what full allocation gives (and 4 s for batches)."""
    stages: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        begun = time.process_time()
        result = work()
        stages[stage] = time.process_time() - begun
        return result

    buffer = IatWindows(N_E, parts=(1.0, 0.5))
    buffer.add_iats(stream)
    snapshot = timed("snapshot", buffer.snapshot)
    estimate = timed("fit", lambda: estimate_workload(snapshot.iats, shares=snapshot.shares, best=5, warm=warm))
    rate = max(window.fit.trace.rate for window in estimate.windows)
    top = dict.fromkeys(LOADS, 1.0)
    # Outside the clock: what bound to ask for.
    workload = labelled(estimate)
    if kind == "micro-batches, screened":
        bounded = log_analysis(rate, 1.0, kind)
        workload = timed("queues and search", lambda: worst_processes(bounded, workload))
    ideal = PipelineLatency(log_analysis(rate, 1.0, "records"), workload)
    bound = 2.0 * max(path.seconds for path in ideal.predict(single_executors(top))) + (
        0.0 if kind == "records" else 4.0
    )
    latency = PipelineLatency(log_analysis(rate, bound, kind), workload)
    policy = MeadPlanner(search=search, most_levels_down=None)
    current = dict.fromkeys(LOADS, Allocation(1, 1.0))
    screening = stages.pop("queues and search", 0.0)
    plan: PipelinePlan = timed("queues and search", lambda: policy.plan_pipeline(0.0, latency, current))
    queues = screening + stages.pop("queues and search")
    again = time.process_time()
    policy.plan_pipeline(0.0, latency, current)  # all answers known: what is left is the search
    stages["search"] = min(time.process_time() - again, queues)
    stages["queues"] = queues - stages["search"]
    return {
        "kind": kind,
        "search": search, "start": "cold" if warm is None else "warm", "stages": stages,
        "cpu_seconds": sum(stages.values()), "queues_solved": latency.queues_solved, "evaluations": plan.evaluations,
        "is_met": plan.is_met, "cost": plan.cost, "maps": len(workload), "bound": bound,
        "shares": {d.operator: d.target.cpu_share for d in plan.decisions}, "estimate": estimate,
    }  # fmt: skip


def passes(streams: dict[str, FloatArray], batches: bool) -> list[dict[str, Any]]:
    """Cold and warm passes over every stream."""
    rows = []
    for name, stream in streams.items():
        for search in SEARCHES:
            rows.append({"trace": name} | one_pass(stream[:N_E], "records", search, None))
        warm = rows[-1]["estimate"]
        rows.append({"trace": name} | one_pass(stream[N_E // 50 :][:N_E], "records", "exact", warm))
    if batches:
        name, stream = next(iter(streams.items()))
        for kind in ("micro-batches, screened", "micro-batches"):
            rows.append({"trace": name} | one_pass(stream[:N_E], kind, "exact", None))
    for row in rows:
        del row["estimate"]
    return rows


def random_pipeline(rng: np.random.Generator, operators: int, levels: int) -> AllocationSpace:
    """A chain or a fork of M/M/1 queues, with bounds between what the highest and the lowest levels give."""
    names = [f"o{i}" for i in range(operators)]
    demands = {name: float(rng.lognormal(0.0, 1.0)) for name in names}
    rate = float(rng.uniform(0.1, 0.6)) / max(demands.values())
    cut = int(rng.integers(1, operators)) if operators > 2 and rng.random() < 0.6 else operators
    trunk, rest = names[:cut], names[cut:]
    half = len(rest) // 2
    paths = [tuple(trunk)] if not rest else [(*trunk, *part) for part in (rest[:half], rest[half:]) if part]
    best = FakePathLatency(dict.fromkeys(paths, 1.0), demands, rate).predict(
        single_executors(dict.fromkeys(names, 1.0))
    )
    bounds = {path.path: path.seconds * float(rng.uniform(1.05, 2.5)) for path in best}
    shares = tuple(float(share) for share in np.linspace(0.4, 1.0, levels))
    return AllocationSpace(FakePathLatency(bounds, demands, rate), dict.fromkeys(names, Levels(shares)))


def distances(instances: int) -> list[dict[str, Any]]:
    """How much dearer than the optimum the heuristics are, and how often they break a bound that can be kept."""
    rows = []
    for operators, levels in ((3, 5), (5, 5), (8, 5), (8, 8)):
        rng = np.random.default_rng(operators * 100 + levels)
        excess: dict[str, list[float]] = {"published": [], "refined": []}
        broken, seconds, evaluations = {"published": 0, "refined": 0}, [], []
        for _ in range(instances):
            space = random_pipeline(rng, operators, levels)
            found = {"published": figure_5(space, 0.05), "refined": refined(space, 0.05)}
            begun = time.process_time()
            answer = exact_search(space, known=found["refined"].x)
            seconds.append(time.process_time() - begun)
            evaluations.append(answer.evaluations)
            assert answer.is_proven
            for name, one in found.items():
                broken[name] += not one.is_met
                if one.is_met:
                    excess[name].append(space.cost(one.x) / answer.cost - 1.0)
        rows.append({
            "operators": operators, "levels": levels, "allocations": levels**operators, "instances": instances,
            "excess": {k: [float(np.mean(v)), float(np.quantile(v, 0.95)), max(v)] for k, v in excess.items()},
            "optimal": {k: float(np.mean(np.array(v) < 1e-9)) for k, v in excess.items()}, "broken": broken,
            "exact_evaluations": [float(np.median(evaluations)), max(evaluations)],
            "exact_cpu_seconds": [float(np.median(seconds)), max(seconds)],
        })  # fmt: skip
    return rows


SIZES = (2, 4, 8, 16, 32, 50)
SHAPES = ("chain", "fork", "tree")
EIGHT = Levels(tuple(float(share) for share in np.linspace(0.3, 1.0, 8)))
MOST_FOR_PROOF = 20_000
"""Predictions of closed forms that the exact search may ask for to say how far off a plan is."""


def before(shape: str, operators: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """What each operator reads from: all in a row, all from the first, or each from any before it."""
    return [() if i == 0 else (f"o{_source(shape, i, rng)}",) for i in range(operators)]


def _source(shape: str, i: int, rng: np.random.Generator) -> int:
    if shape == "tree":
        return int(rng.integers(0, i))
    return i - 1 if shape == "chain" else 0


def queues_of(shape: str, operators: int, times: float, seed: int) -> PipelineLatency:
    """Record by record under MAP(2) arrivals, Erlang-2 service; p95 within `times` what full CPU gives."""
    rng, process = np.random.default_rng(seed), KNOWN["MAP(2)"]
    graph = before(shape, operators, rng)
    models = [
        OperatorModel(f"o{i}", RecordDemand(PH.erlang(2, mean=float(load) / process.rate)), graph[i])
        for i, load in enumerate(rng.uniform(0.05, 0.35, operators))
    ]
    full = dict.fromkeys((model.name for model in models), Allocation(1, 1.0))
    free = PipelineLatency(PipelineModel(models, Objective("p95", 1e6)), {"MAP(2)": process})
    bound = times * max(path.seconds for path in free.predict(full))
    return PipelineLatency(PipelineModel(models, Objective("p95", bound)), {"MAP(2)": process})


def closed_forms(shape: str, operators: int, times: float, seed: int) -> FakePathLatency:
    """The same shapes as M/M/1 queues, each path within `times` what full CPU gives."""
    rng = np.random.default_rng(seed)
    graph = before(shape, operators, rng)
    demands = {f"o{i}": float(load) for i, load in enumerate(rng.uniform(0.05, 0.35, operators))}
    read = {source for sources in graph for source in sources}
    paths = []
    for name in demands:
        if name not in read:
            path: tuple[str, ...] = (name,)
            while graph[int(path[0][1:])]:
                path = (*graph[int(path[0][1:])], *path)
            paths.append(path)
    full = single_executors(dict.fromkeys(demands, 1.0))
    best = FakePathLatency(dict.fromkeys(paths, 1.0), demands, 1.0).predict(full)
    return FakePathLatency({path.path: times * path.seconds for path in best}, demands, 1.0)


def least_of_chain(latency: FakePathLatency) -> float:
    """The least cost of a chain of any length: its times add up, so the least time for every sum is enough to know."""
    ((path, bound),) = latency.bounds.items()
    fastest = {0: 0.0}  # by cost in tenths of a core
    for name in path:
        further: dict[int, float] = {}
        for (spent, seconds), share in product(fastest.items(), EIGHT.shares):
            spare = share - latency.rate * latency.demands[name]
            if spare > 0.0:
                cost = spent + round(10 * share)
                further[cost] = min(seconds + latency.demands[name] / spare, further.get(cost, float("inf")))
        fastest = further
    return min(cost for cost, seconds in fastest.items() if seconds <= bound) / 10


MADE: dict[str, Callable[[str, int, float, int], PipelineLatency | FakePathLatency]] = {
    "queues": queues_of,
    "closed": closed_forms,
}


def sizes(times: float, seed: int) -> list[dict[str, Any]]:
    """Plans of the default search for chains, forks and trees of every size."""
    rows = []
    for shape, operators in product(SHAPES, SIZES):
        row: dict[str, Any] = {"shape": shape, "operators": operators}
        both = {kind: make(shape, operators, times, seed) for kind, make in MADE.items()}
        for kind, latency in both.items():
            levels = dict.fromkeys(latency.operators, EIGHT)
            current = dict.fromkeys(latency.operators, Allocation(1, 1.0))
            begun = time.process_time()
            plan = MeadPlanner(most_levels_down=None).plan_pipeline(0.0, latency, current, levels)
            row[kind] = {
                "cpu_seconds": time.process_time() - begun, "evaluations": plan.evaluations, "is_met": plan.is_met,
                "search": plan.decisions[0].evidence["search"], "share": plan.cost / operators,
            }  # fmt: skip
            if isinstance(latency, FakePathLatency):
                space = AllocationSpace(latency, levels)
                found = refined(space, 0.05)
                answer = exact_search(space, known=found.x, most_evaluations=MOST_FOR_PROOF)
                least = answer.cost if answer.is_proven else least_of_chain(latency) if shape == "chain" else None
                row["above_optimum"] = None if least is None else max(space.cost(found.x) / least - 1.0, 0.0)
        rows.append(row)
    return rows


def analyses(times: float, seed: int) -> list[dict[str, Any]]:
    """Whole analyses, replayed as shipped and fitted, from 50,000 inter-arrival times to a plan for 50 operators."""
    process, rows = KNOWN["MAP(2)"], []
    iats = process.sample(N_E, np.random.default_rng([seed, 1]))
    ways: tuple[Queues, ...] = ("replay", "map")
    for shape, queues in product(SHAPES, ways):
        latency = queues_of(shape, max(SIZES), times, seed)
        pipeline = latency.pipeline
        task = AnalysisTask(
            at=0.0,
            iats=iats,
            windows=(1.0, 0.5),
            growth=1.0,
            are_exact=True,
            operators=tuple(pipeline.operators),
            objectives={path: pipeline.objective(path) for path in pipeline.paths},
            current=dict.fromkeys(pipeline.order, Allocation(1, 1.0)),
            limits=dict.fromkeys(pipeline.order, Limits(1, 1, EIGHT.shares)),
            options=MeadOptions(queues=queues),
        )
        begun = time.process_time()
        plan = analyse(task).plan
        rows.append({"shape": shape, "queues": queues, "operators": max(SIZES),
                     "cpu_seconds": time.process_time() - begun,
                     "evaluations": plan.evaluations, "is_met": plan.is_met, "cost": plan.wanted_cost})  # fmt: skip
    return rows


def show_analyses(rows: list[dict[str, Any]]) -> None:
    """Print what whole analyses of large pipelines take."""
    print("\nWhole analyses, CPU seconds of one core (bar: 5 s)\n")
    print("| shape | queues | operators | CPU s | predicted | mean share | kept |\n|---|---|---:|---:|---:|---:|---|")
    for row in rows:
        kept = "yes" if row["is_met"] else "no"
        share = 100 * row["cost"] / row["operators"]
        print(
            f"| {row['shape']} | {row['queues']} | {row['operators']} | {row['cpu_seconds']:.1f} | "
            f"{row['evaluations']} | {share:.0f} % | {kept} |"
        )


def show_sizes(rows: list[dict[str, Any]]) -> None:
    """Print cost over size, and draw it where matplotlib is installed."""
    print("\nPlans over the number of operators, 8 levels, CPU seconds of one core (bar: 5 s)\n")
    print("| shape | operators | search | CPU s, queues | predicted | mean share | CPU s, closed forms | predicted "
          "| refined above the optimum |")  # fmt: skip
    print("|---|---:|---|" + "---:|" * 6)
    for row in rows:
        queues, closed = row["queues"], row["closed"]
        above = "not known" if row["above_optimum"] is None else f"{100 * row['above_optimum']:.1f} %"
        print(
            f"| {row['shape']} | {row['operators']} | {queues['search']} | {queues['cpu_seconds']:.2f} | "
            f"{queues['evaluations']} | {100 * queues['share']:.0f} % | {closed['cpu_seconds']:.2f} | "
            f"{closed['evaluations']} | {above} |"
        )


def draw_sizes(rows: list[dict[str, Any]], file: Path) -> None:
    """Write the curve of CPU seconds over operators as a PNG."""
    try:
        import matplotlib
    except ImportError:
        print("no curve: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    for shape in SHAPES:
        of_shape = [row for row in rows if row["shape"] == shape]
        times = [row["queues"]["cpu_seconds"] for row in of_shape]
        axes.plot([row["operators"] for row in of_shape], times, "o-", label=shape)
    axes.set(xlabel="operators", ylabel="CPU seconds of one plan")
    axes.legend()
    figure.savefig(file)


def served(arrivals: FloatArray, times: FloatArray) -> FloatArray:
    """When records leave a server, first come first served: all of Lindley's recursion at once."""
    work = np.cumsum(times)
    return np.asarray(work + np.maximum.accumulate(arrivals - np.concatenate([[0.0], work[:-1]])))


def accuracy(streams: dict[str, FloatArray], records: int) -> list[dict[str, Any]]:
    """Two queues in a row, fed by a process: predicted over simulated."""
    processes = dict(KNOWN)
    if "bc-paug89" in streams:
        processes["bc-paug89, fitted"] = fit_maps(streams["bc-paug89"][:N_E], best=1).maps[0].map
    rows = []
    for name, process in processes.items():
        rng = np.random.default_rng(0)
        arrivals = np.cumsum(process.sample(records, rng))
        for loads in ((0.2, 0.6), (0.4, 0.6), (0.6, 0.6), (0.6, 0.4), (0.3, 0.8), (0.7, 0.8)):
            services = [PH.erlang(2, mean=load / process.rate) for load in loads]
            ends = arrivals
            for service in services:
                ends = served(ends, service.sample(records, rng))
            latency = (ends - arrivals)[records // 10 :]
            row: dict[str, Any] = {"process": name, "loads": loads}
            for statistic, truth in (("mean", float(latency.mean())), ("p95", float(np.quantile(latency, 0.95)))):
                model = PipelineModel(
                    [
                        OperatorModel("a", RecordDemand(services[0])),
                        OperatorModel("b", RecordDemand(services[1]), ("a",)),
                    ],
                    Objective(statistic, truth),
                )
                (path,) = PipelineLatency(model, {name: process}).predict(single_executors({"a": 1.0, "b": 1.0}))
                row[statistic] = path.seconds / truth - 1.0
            rows.append(row)
    return rows


def replayed(iats: FloatArray, services: dict[str, PH], shares: dict[str, float]) -> dict[str, float]:
    """95th percentiles along both paths when the window is replayed, first come first served."""
    arrivals, told = np.cumsum(iats), {}
    for last in ("counter", "matcher"):
        rng, ends = np.random.default_rng(9), arrivals
        for name in ("parser", last):
            ends = served(ends, services[name].sample(iats.size, rng) / shares[name])
        told[last] = float(np.quantile(ends - arrivals, 0.95))
    return told


def hindsight(streams: dict[str, FloatArray]) -> list[dict[str, Any]]:
    """Cost of plans over that of the oracle."""
    rows = []
    for name, stream in streams.items():
        iats = stream[:N_E]
        estimate = estimate_workload(iats, shares=(1.0, 0.5))
        rate = max(window.fit.trace.rate for window in estimate.windows)
        services = {operator: PH.erlang(2, mean=load / rate) for operator, load in LOADS.items()}
        full = replayed(iats, services, dict.fromkeys(LOADS, 1.0))["matcher"]
        choices = sorted(product(Levels().shares, repeat=3), key=sum)
        for times in (2.0, 3.0, 5.0):
            bound = times * full
            oracle = next(
                sum(shares)
                for shares in choices
                if max(replayed(iats, services, dict(zip(LOADS, shares, strict=True))).values()) <= bound
            )
            latency = PipelineLatency(log_analysis(rate, bound, "records"), labelled(estimate))
            policy = MeadPlanner(most_levels_down=None)
            plan = policy.plan_pipeline(0.0, latency, dict.fromkeys(LOADS, Allocation(1, 1.0)))
            shares = {decision.operator: decision.target.cpu_share for decision in plan.decisions}
            rows.append({
                "trace": name, "bound": times, "oracle": oracle / 3, "cpu": plan.cost / 3,
                "is_possible": plan.is_possible,
                "replayed": max(replayed(iats, services, shares).values()) / bound,
            })  # fmt: skip
    return rows


def show_hindsight(rows: list[dict[str, Any]]) -> None:
    """Print plans against the oracle."""
    print("\nPlans against the oracle: mean CPU share; 95th percentile over the bound when the window is replayed\n")
    print("| trace | bound / p95 at full CPU | oracle | CPU | p95 / bound |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        possible = "" if row["is_possible"] else " (predicted impossible)"
        print(
            f"| {row['trace']} | {row['bound']:g} | {100 * row['oracle']:.0f} % | "
            f"{100 * row['cpu']:.0f} %{possible} | {row['replayed']:.2f} |"
        )


def show_passes(rows: list[dict[str, Any]]) -> None:
    """Print seconds by stage."""
    print("One analysis and plan, CPU seconds of one core (bar: 5 s)\n")
    print("| trace | kind | start | search | total | snapshot | fit | queues | search | queues | predicted | cost |")
    print("|---|---|---|---|" + "---:|" * 8)
    for row in rows:
        stages = row["stages"]
        cells = [
            row["trace"], row["kind"], row["start"], row["search"], f"{row['cpu_seconds']:.2f}",
            *(f"{stages[s]:.3f} ({100 * stages[s] / row['cpu_seconds']:.0f} %)"
              for s in ("snapshot", "fit", "queues", "search")),
            str(row["queues_solved"]), str(row["evaluations"]), f"{row['cost']:.2f}",
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |")


def show_distances(rows: list[dict[str, Any]]) -> None:
    """Print heuristics against the optimum."""
    print("\nHeuristics against the optimum (M/M/1 pipelines, delta 0.05): mean, 95th percentile and most extra cost\n")
    print("| operators x levels | instances | Fig. 5: extra cost | optimal | broken | refined: extra cost | optimal "
          "| broken | exact: predictions (median, most) | CPU s (median, most) |")  # fmt: skip
    print("|---|" + "---:|" * 9)
    for row in rows:
        cells = [f"{row['operators']} x {row['levels']}", str(row["instances"])]
        for name in ("published", "refined"):
            cells.append(", ".join(f"{100 * value:.1f} %" for value in row["excess"][name]))
            cells += [f"{100 * row['optimal'][name]:.0f} %", f"{100 * row['broken'][name] / row['instances']:.0f} %"]
        cells.append(", ".join(f"{value:.0f}" for value in row["exact_evaluations"]))
        cells.append(", ".join(f"{value:.3f}" for value in row["exact_cpu_seconds"]))
        print("| " + " | ".join(cells) + " |")


def show_accuracy(rows: list[dict[str, Any]]) -> None:
    """Print predictions against simulation."""
    print("\nTwo queues in a row: predicted over simulated\n")
    print("| process | utilisations | mean | p95 |\n|---|---|---:|---:|")
    for row in rows:
        loads = ", ".join(str(load) for load in row["loads"])
        print(f"| {row['process']} | {loads} | {100 * row['mean']:+.0f} % | {100 * row['p95']:+.0f} % |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--instances", type=int, default=100, help="random pipelines of each size")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of each simulation")
    parser.add_argument(
        "--only", choices=("passes", "distances", "accuracy", "hindsight", "sizes", "analyses"), help="one part"
    )
    parser.add_argument(
        "--times", type=float, default=1.5, help="parts `sizes` and `analyses`: bound over what full CPU gives"
    )
    parser.add_argument("--seed", type=int, default=0, help="parts `sizes` and `analyses`: seed of loads and trees")
    parser.add_argument("--png", type=Path, help="where to draw the curve of the part `sizes`")
    parser.add_argument("--no-batches", action="store_true", help="leave out the pass over micro-batches")
    arguments = parser.parse_args()
    streams: dict[str, FloatArray] = {}
    folder = data_folder()
    if folder is None:
        print("no real traces: set PENSTOCK_DATA to their folder", file=sys.stderr)
    else:
        streams = {"bc-paug89": bc_paug89(folder), "cloudphysics-io": cloudphysics(folder)}
    streams["MAP(8)"] = KNOWN["MAP(8)"].sample(N_E + N_E // 10, np.random.default_rng(2))
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "passes": lambda: passes(streams, not arguments.no_batches),
        "distances": lambda: distances(arguments.instances),
        "accuracy": lambda: accuracy(streams, arguments.records),
        "hindsight": lambda: hindsight(streams),
        "sizes": lambda: sizes(arguments.times, arguments.seed),
        "analyses": lambda: analyses(arguments.times, arguments.seed),
    }
    result = {part: work() for part, work in parts.items() if arguments.only in (None, part)}
    if arguments.json:
        print(json.dumps(result))
    else:
        tables = {
            "passes": show_passes, "distances": show_distances, "accuracy": show_accuracy, "hindsight": show_hindsight,
            "sizes": show_sizes, "analyses": show_analyses,
        }  # fmt: skip
        for part, rows in result.items():
            tables[part](rows)
    if arguments.png is not None and "sizes" in result:
        draw_sizes(result["sizes"], arguments.png)


if __name__ == "__main__":
    main()
