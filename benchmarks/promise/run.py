# SPDX-License-Identifier: Apache-2.0
"""The promise: the bound is kept for less than a static allocation costs, beside what a user would pick instead.

The demo's job, limits and objective run under three loads on the embedded cluster: alone, and beside a process that
keeps one core busy. In turn it is sized by nobody (all that the limits allow), by `threshold`, by `mead`, and by
Spark's own dynamic allocation, as it comes and with the short time-outs that its users advise for streaming. Penstock
watches all of them alike, and counts executors, CPU, latency and violations alike.

Rounds go through all of them before the next begins, so that a busy hour meets all alike. Every run is added to
`runs.jsonl` beside this file when it ends, also one that failed, and is counted. Run again, the command goes on where
it was, also on another day; a run that was interrupted is run anew. What a run wrote is kept only where it failed, but
what a policy has learnt is handed down to its next run, as with one store. The command ends with 1 where something that
was promised was not so, or is not known yet. Records arrive for one and a half or two minutes in each run; `--loads`,
`--rivals` and `--machine` choose some, and `--most` is how many to run now. `--readme` puts the table into the README
beside this file, and a short one into that of the repository. Run: ``python benchmarks/promise/run.py --runs 10``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.marked_part import write_marked_part
from benchmarks.promise.rivals import BUSY, LOADS, MACHINES, MINUTES, RIVALS, Rival, settings
from benchmarks.promise.table import Run, short_table, table, told, verdicts, versions

from penstock.adaptors.private_file import make_private_folder, write_private
from penstock.errors import PenstockError
from penstock.evaluation.source_version import source_version
from penstock.evaluation.violations import broken_time_share
from penstock.knowledge.notebook import NOTES_FACT
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import CycleReport
from penstock.records import Objective, Observation
from penstock.running.pipeline_run import run_pipeline

HERE = Path(__file__).resolve().parent
FRONT_PAGE = HERE.parents[1] / "README.md"


@dataclass
class Watched:
    """The looks of a run."""

    looks: list[Observation] = field(default_factory=list)

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Say what is done now."""
        if fraction is None:
            _say(text)

    def report(self, report: CycleReport) -> None:
        """Keep the look."""
        self.looks.append(report.observation)
        if report.decision is not None and report.decision.is_change:
            _say(f"{report.decision.change_text}: {report.decision.reason}")

    def fault(self, operator: str, text: str) -> None:
        """Print a fault."""
        _say(f"{operator}: {text}")

    def violation_share(self, since: float, objective: Objective) -> float | None:
        """Part of the time in which the bound was broken, whoever sizes the job: a stall counts too."""
        return broken_time_share(self.looks, objective, since=since)

    @property
    def changes(self) -> int:
        """How often what was there changed; Spark's own changes count like ours."""
        sizes = [look.cluster.observed for look in self.looks if look.cluster.observed is not None]
        return sum(before != after for before, after in pairwise(sizes))


def main() -> int:
    """Run what is missing, print the table and the verdicts."""
    chosen = _arguments()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    file: Path = chosen.file
    file.parent.mkdir(parents=True, exist_ok=True)
    rivals = [rival for rival in RIVALS if rival.name in chosen.rivals]
    wanted = list(product(range(1, chosen.runs + 1), chosen.machine, chosen.loads, rivals))
    has = {(run.number, run.neighbour, run.load, run.rival) for run in read(file)}
    missing = [one for one in wanted if (*one[:3], one[3].name) not in has]
    others = {f"{run.minutes:g} min of {run.load}" for run in read(file) if run.minutes != minutes_of(run.load, chosen)}
    if others and missing[: chosen.most]:
        raise SystemExit(f"{file} has runs of {', '.join(sorted(others))}; give --minutes as it was, or another --file")
    for place, (number, neighbour, load, rival) in enumerate(missing[: chosen.most], 1 + len(wanted) - len(missing)):
        print(
            f"{place} of {len(wanted)}: round {number}, {neighbour}, {load}, {rival.name}", file=sys.stderr, flush=True
        )
        with _busy_core(is_wanted=neighbour == BUSY):
            run = one_run(number, neighbour, load, rival, chosen)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(run.to_json()) + "\n")
    runs = read(file)
    found = verdicts(runs)
    print("\n".join([*table(runs), *told(found), versions(runs)]))
    if chosen.readme:
        write_marked_part(HERE / "README.md", readme_part(runs))
        write_marked_part(FRONT_PAGE, front_page_part(runs))
    if chosen.json:
        print(json.dumps({"runs": [run.to_json() for run in runs], "verdicts": dict(found)}))
    return 0 if all(is_so for _, is_so in found) else 1


def readme_part(runs: Sequence[Run]) -> list[str]:
    """What the README says of the runs that were kept."""
    if not runs:
        return ["No run was kept yet."]
    return [*table(runs), "", *told(verdicts(runs)), "", f"{len(runs)} runs, {versions(runs)}."]


def front_page_part(runs: Sequence[Run]) -> list[str]:
    """What the README of the repository says of them."""
    page, answers = "[the promise](benchmarks/promise/README.md)", [is_so for _, is_so in verdicts(runs)]
    if not runs:
        return [f"Not measured yet: {page}, that `mead` keeps the bound for less than what a user would pick instead."]
    told = f"{answers.count(True)} of its {len(answers)} parts were so, {answers.count(False)} were not"
    return [
        *short_table(runs),
        "",
        f"All {len(runs)} runs of {page}: {told}, {answers.count(None)} are not known yet.",
    ]


def one_run(number: int, neighbour: str, load: str, rival: Rival, chosen: argparse.Namespace) -> Run:
    """One run to its end; a failure is a run too."""
    folder = chosen.folder / f"{number}-{neighbour}-{load}-{rival.name}".replace(" ", "-").replace(",", "")
    if folder.exists():  # of a run that was interrupted: its store and its checkpoint are not to be gone on with
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    minutes = minutes_of(load, chosen)
    run = settings(load, rival, minutes=minutes, seed=number, folder=folder)
    learnt: Path = chosen.folder / f"learnt-by-{rival.name}.json"
    if learnt.exists():
        hand_down(learnt, folder / "run")
    objective = next(iter(run.path_objectives().values()))
    assert objective.seconds is not None  # that of the demo is a bound
    watched, failure, summary = Watched(), "", None
    try:
        summary = run_pipeline(run, folder / "run", listener=watched, stop=threading.Event())
    except Exception as fault:  # whatever it is, it is counted
        failure = f"{type(fault).__name__}: {fault}"
        _say(f"failed: {failure}")
    if not failure:
        keep_learnt(folder / "run", learnt)
        shutil.rmtree(folder)
    path, source = None if summary is None else summary.worst, source_version()
    since = path.steady_from if path is not None and path.steady_from is not None else 0.0
    return Run(
        load=load,
        neighbour=neighbour,
        rival=rival.name,
        number=number,
        minutes=minutes,
        bound_seconds=objective.seconds,
        p95_seconds=None if path is None or path.steady is None else path.steady.p95_seconds,
        violation_share=watched.violation_share(since, objective),
        executor_seconds=None if summary is None else summary.executor_seconds,
        cpu_seconds=None if summary is None else summary.capacity_seconds,
        static_cpu_seconds=None if summary is None else summary.static_capacity_seconds,
        changes=watched.changes,
        records_due=None if summary is None else summary.records_due,
        records_done=None if summary is None else summary.records_done,
        failure=failure,
        version=str(source["version"]),
        commit=source["commit"],
    )


def minutes_of(load: str, chosen: argparse.Namespace) -> float:
    """How long records arrive in a run with this load."""
    return MINUTES[load] if chosen.minutes is None else float(chosen.minutes)


def hand_down(learnt: Path, run: Path) -> None:
    """Let a run begin with what the ones before have learnt, as one does that has their store."""
    make_private_folder(run)
    store = SqliteStore(run / "knowledge.sqlite")
    store.set_fact(NOTES_FACT, learnt.read_text(encoding="utf-8"))
    store.close()


def keep_learnt(run: Path, learnt: Path) -> None:
    """Keep what the policy of a run has written down for later ones, if it has."""
    try:
        store = SqliteStore.open_readonly(run / "knowledge.sqlite")
        notes = store.fact(NOTES_FACT)
        store.close()
    except PenstockError as fault:  # the run has ended, and counts
        _say(f"what was learnt is lost: {fault}")
        return
    if notes is not None:
        write_private(learnt, notes)


def read(file: Path) -> list[Run]:
    """The runs so far."""
    if not file.exists():
        return []
    return [Run(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


@contextmanager
def _busy_core(*, is_wanted: bool) -> Iterator[None]:
    """One process that does nothing but count, at the priority of everybody else."""
    if not is_wanted:
        yield
        return
    neighbour = multiprocessing.get_context("spawn").Process(target=_count, daemon=True)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.terminate()
        neighbour.join()


def _count() -> None:
    number = 0
    while True:
        number += 1


def _say(text: str) -> None:
    print(f"    {text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [rival.name for rival in RIVALS]
    arguments.add_argument("--runs", type=int, default=10, help="rounds")
    arguments.add_argument("--most", type=int, help="most runs now; default: all that are missing")
    told = ", ".join(f"{minutes:g} with {load}" for load, minutes in MINUTES.items())
    arguments.add_argument("--minutes", type=float, help=f"how long records arrive in each run; default: {told}")
    arguments.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    arguments.add_argument("--rivals", nargs="+", choices=names, default=names)
    arguments.add_argument("--machine", nargs="+", choices=MACHINES, default=list(MACHINES))
    arguments.add_argument("--folder", type=Path, default=Path("build/promise"), help="where runs work")
    arguments.add_argument("--file", type=Path, default=HERE / "runs.jsonl", help="gets every run")
    arguments.add_argument("--readme", action="store_true", help="put table and verdicts into the README")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
