# SPDX-License-Identifier: Apache-2.0
"""Changes the code that decides and acts in small ways, one at a time, and counts how many changes the tests notice.

    pip install cosmic-ray
    python scripts/mutation.py --most 60 --seconds 900

The changes are those of Cosmic Ray (https://cosmic-ray.readthedocs.io): another operator, another number, a condition
turned round, an exception that is not caught. Those in annotations, and of a star or stroke in a signature, are left
out, for they change nothing that runs. Of each part a random sample is tried, in a copy of the repository. A change
that the tests of its part do not notice, a survivor, is shown as a diff.

Every try is a fork of one process that has loaded the libraries, so that a try costs little more than its tests.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIRST_SECONDS, LEAST_SECONDS, TIMES_SLOWER = 900.0, 60.0, 5.0
"""How long tests may take without a change, and with one: one that makes them hang was noticed."""
LIBRARIES = ("pytest", "numpy", "scipy.stats", "scipy.optimize", "msgspec", "pydantic", "yaml", "psutil")


@dataclass(frozen=True)
class Part:
    """Some modules, and the tests that are to notice changes of them, the quickest first."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = (
    Part("execute", ("execute/reconcile.py", "execute/pause.py"),
         ("tests/unit/execute", "tests/unit/loop/test_cycle_and_runner.py")),
    Part("guards", ("plan/guards.py",),
         ("tests/unit/plan/test_guards.py", "tests/unit/loop/test_cycle_and_runner.py",
          "tests/property/test_limits_property.py")),
    Part("loop", ("loop/cycle.py", "loop/runner.py", "loop/helm.py", "loop/orders.py", "loop/patient_source.py",
                  "loop/policy_calls.py", "loop/kept_orders.py", "loop/order_checks.py", "loop/fault_log.py",
                  "loop/patient_actuator.py", "loop/answer.py"),
         ("tests/unit/loop/test_cycle_and_runner.py", "tests/unit/loop/test_helm.py",
          "tests/unit/loop/test_clock_set.py", "tests/unit/loop/test_patient_source.py",
          "tests/unit/loop/test_loop_log.py", "tests/unit/loop/test_loop_ends.py",
          "tests/unit/loop/test_subscriptions.py", "tests/unit/running/test_resumed_orders.py",
          "tests/unit/loop/test_looking_back.py", "tests/unit/loop/test_patient_actuator.py")),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One change: which operator of Cosmic Ray, and at which of its places in the module."""

    module: str
    operator: str
    arguments: tuple[tuple[str, Any], ...]
    place: int
    line: int


def changes_of(module: str) -> Iterator[Change]:
    """Every change of a module but those in annotations."""
    trees = importlib.import_module("cosmic_ray.ast")
    plugins = importlib.import_module("cosmic_ray.plugins")
    path = ROOT / "src" / "penstock" / module
    nodes = list(trees.ast_nodes(trees.get_ast_from_path(path)))
    for name in plugins.operator_names():
        operator_class = plugins.get_operator(name)
        if operator_class.arguments() or "NoOp" in name or "BinaryOperator_BitOr" in name:
            continue
        operator = operator_class()
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        yield from (Change(module, name, (), place, line) for place, (line, _) in enumerate(places))


def changed_text(change: Change) -> str | None:
    """The module with that change; None: it is the same program, or none at all."""
    plugins = importlib.import_module("cosmic_ray.plugins")
    mutating = importlib.import_module("cosmic_ray.mutating")
    text = (ROOT / "src" / "penstock" / change.module).read_text(encoding="utf-8")
    operator = plugins.get_operator(change.operator)(**dict(change.arguments))
    made: str | None = mutating.mutate_code(text, operator, change.place)
    if made is None or made == text:
        return None
    try:
        compile(made, change.module, "exec")
    except SyntaxError:
        return None
    return None if _runs_as(made) == _runs_as(text) else made


def _runs_as(text: str) -> str:
    """A module without what only says how arguments may be given: a `/` in place of a `*` is no other program."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *(value for value in node.kw_defaults if value is not None)]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
    return ast.dump(tree)


def copy_of_repository(folder: Path) -> Path:
    """What git knows of, with what is not yet committed."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        if name.startswith(("src/", "tests/", "pyproject.toml", "examples/", "benchmarks/", "scripts/")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copy(ROOT / name, target)
    return folder


def is_noticed(
    folder: Path, tests: Sequence[str], most_seconds: float = FIRST_SECONDS, *, keeps_compiled: bool = False
) -> bool:
    """Run the tests in a fork; whether one of them fails, or they do not end in time.

    What is compiled without a change is kept for those with one, but none of those keeps anything.
    """
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.chdir(folder)
            sys.dont_write_bytecode = not keeps_compiled
            quiet = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(quiet, descriptor)
            sys.path.insert(0, str(folder / "src"))
            import pytest

            code = pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", *tests])
        except BaseException:
            code = 1
        os._exit(int(code))
    deadline = time.monotonic() + most_seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def try_part(part: Part, folder: Path, *, most: int, until: float, draw: random.Random) -> dict[str, Any]:
    """Try a sample of a part's changes; gives counts and the survivors."""
    known = [change for module in part.modules for change in changes_of(module)]
    sample = draw.sample(known, min(most, len(known)))
    began = time.monotonic()
    if is_noticed(folder, part.tests, keeps_compiled=True):
        raise SystemExit(f"{part.name}: the tests fail without a change, or do not end")
    most_seconds = max(LEAST_SECONDS, TIMES_SLOWER * (time.monotonic() - began))
    noticed, survivors = 0, []
    for change in sample:
        if time.monotonic() > until:
            break
        text = changed_text(change)
        if text is None:
            continue
        target = folder / "src" / "penstock" / change.module
        before = target.read_text(encoding="utf-8")
        target.write_text(text, encoding="utf-8")
        try:
            is_killed = is_noticed(folder, part.tests, most_seconds)
        finally:
            target.write_text(before, encoding="utf-8")
        noticed += is_killed
        if not is_killed:
            diff = difflib.unified_diff(
                before.splitlines(), text.splitlines(), change.module, change.operator, "", "", 0
            )
            survivors.append("\n".join(list(diff)[:12]))
            print(f"\n{part.name}: survived\n{survivors[-1]}", flush=True)
    tried = noticed + len(survivors)
    print(f"{part.name}: {noticed} of {tried} changes were noticed ({len(known)} are possible)", flush=True)
    return {"part": part.name, "possible": len(known), "tried": tried, "noticed": noticed, "survivors": survivors}


def main() -> int:
    """Try the parts one after the other, each for its share of the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=[part.name for part in PARTS], action="append")
    parser.add_argument("--most", type=int, default=60, help="changes of each part")
    parser.add_argument("--seconds", type=float, default=900.0, help="for all parts together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the result is kept")
    given = parser.parse_args()
    parts = [part for part in PARTS if given.part is None or part.name in given.part]
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        importlib.import_module(name)
    began, results = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
        folder = copy_of_repository(Path(temporary))
        for number, part in enumerate(parts):
            until = began + given.seconds * (number + 1) / len(parts)
            results.append(try_part(part, folder, most=given.most, until=until, draw=random.Random(given.seed)))
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
