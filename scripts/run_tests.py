# SPDX-License-Identifier: Apache-2.0
"""Runs the tests in parts and sums them up.

- computed: what needs no Spark, broker or kernel.
- fuzz: ten seconds of processor time of random inputs for each reader of what others wrote (`scripts/fuzz.py`). It is
  no pytest, so it is left out where arguments are given.
- core: of the tests on a real one, those that say most. `make test` runs these three parts.
- real: the other tests on a real one (`make test-real`).
- long: several minutes for each test (`make test-long`).
- kubernetes: on a real Kubernetes, built from source at the first start (`make test-kubernetes`).
- yarn: on a real YARN, fetched at the first start (`make test-yarn`).

What is only computed is spread over all cores. A test with a real Spark, broker or kernel has the machine for itself:
two at a time were seen to run each other into their time limits. Arguments are pytest's, and go to every part.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

REAL = "spark or cgroups or namespaces or e2e or kafka or rabbitmq or postgresql or prometheus or browser or install"
# Looking for tests in all files takes ten seconds; tests/conftest.py refuses one of these elsewhere.
REAL_FOLDERS = ("tests/integration", "tests/e2e")
KUBERNETES_FOLDERS = ("tests/kubernetes",)
YARN_FOLDERS = ("tests/yarn",)

FUZZ = "fuzz"
FUZZ_SCRIPT = Path("scripts/fuzz.py")
FUZZ_SECONDS, FUZZ_JOBS = 10, 2
FUZZ_MOST_SECONDS = 1800.0
"""On a machine without other work it takes two minutes."""

# What pytest's exit codes mean: https://docs.pytest.org/en/stable/reference/exit-codes.html
PASSED, FAILED, NOTHING_COLLECTED = 0, 1, 5
IN_ORDER = {PASSED, FAILED, NOTHING_COLLECTED}
"""Any other code: interrupted, or wrong arguments."""


@dataclass(frozen=True)
class Part:
    """One run of pytest: which tests, and how."""

    name: str
    marks: str
    options: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Where the user has set nothing else."""
    keeps_compiled: bool = False
    """Whether compiled modules are kept beside their sources, also where the environment says that they are not."""
    is_default: bool = True
    """Whether it is run where no part is named."""


# Whole files go to a worker, so that a module's fixture is made once; in the order of the folders, for those with the
# most tests first would leave one worker with a long file at the end. Linear algebra gets one thread in each worker: as
# many workers as cores with as many threads each would fight for them. Without compiled modules every worker, and every
# process that a test starts, would compile all of them again: half a minute for each worker.
PARTS = (
    Part(
        "computed",
        f"not ({REAL} or kubernetes or yarn)",
        ("--numprocesses=logical", "--dist=loadfile", "--no-loadscope-reorder"),
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        keeps_compiled=True,
    ),
    Part("core", f"({REAL}) and core", folders=REAL_FOLDERS),
    Part("real", f"({REAL}) and not core and not long", folders=REAL_FOLDERS, is_default=False),
    Part("long", "long", folders=REAL_FOLDERS, is_default=False),
    Part("kubernetes", "kubernetes", folders=KUBERNETES_FOLDERS, is_default=False),
    Part("yarn", "yarn", folders=YARN_FOLDERS, is_default=False),
)


@dataclass(frozen=True)
class Result:
    """How a part ended."""

    part: Part
    code: int
    seconds: float
    report: ElementTree.Element | None
    counts: str | None = None
    """Of what is no pytest."""

    def line(self) -> str:
        """One line for a person."""
        minutes, seconds = divmod(round(self.seconds), 60)
        return f"  {self.part.name + ':':<9} {self._counts()} in {minutes} min {seconds:02} s"

    def _counts(self) -> str:
        if self.counts is not None:
            return self.counts
        if self.code == NOTHING_COLLECTED:
            return "no tests selected"
        if self.report is None:
            return f"pytest ended with exit code {self.code}"
        total, failed, errors, skipped = (
            sum(int(suite.get(word, 0)) for suite in self.report) for word in ("tests", "failures", "errors", "skipped")
        )
        counts = {"passed": total - failed - errors - skipped, "failed": failed, "errors": errors, "skipped": skipped}
        return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)

    def failed(self) -> list[str]:
        """The tests that failed."""
        if self.report is None:
            return []
        return [
            f"{case.get('classname')}.{case.get('name')}"
            for case in self.report.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        ]


def command_of(part: Part, arguments: Sequence[str], marks: str | None = None) -> list[str]:
    """The command line of a part: the user's marks narrow it, other arguments come last and so have the last word."""
    both = part.marks if marks is None else f"({marks}) and ({part.marks})"
    names_files = any(Path(a.partition("::")[0]).exists() for a in arguments)
    folders = () if names_files else (f for f in part.folders if Path(f).is_dir())
    return [sys.executable, "-m", "pytest", "-m", both, *part.options, *folders, *arguments]


def environment_of(part: Part, environment: Mapping[str, str]) -> dict[str, str]:
    """What a part is run with."""
    found = {**part.environment, **environment}
    if part.keeps_compiled:
        found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def run(part: Part, arguments: Sequence[str], marks: str | None) -> Result:
    """Run one part; its output goes where ours goes."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.xml"
        child = subprocess.Popen(
            [*command_of(part, arguments, marks), f"--junitxml={path}"], env=environment_of(part, os.environ)
        )
        # An interrupt from the terminal reaches pytest as well, which ends orderly; a SIGTERM has to be passed on.
        old = {
            signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
        }
        code = child.wait()
        for number, handler in old.items():
            signal.signal(number, handler)
        report = ElementTree.parse(path).getroot() if path.exists() else None
    return Result(part, code, time.monotonic() - began, report)


def fuzz() -> Result:
    """Give every reader random inputs for some seconds; a finding is shown with its input."""
    began = time.monotonic()
    command = [sys.executable, str(FUZZ_SCRIPT), "--seconds", str(FUZZ_SECONDS), "--jobs", str(FUZZ_JOBS)]
    child = subprocess.Popen(command)
    old = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
    }
    try:
        code = child.wait(FUZZ_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        child.terminate()  # it ends its readers, and writes down how far they are
        child.wait()
        code = FAILED
        print(f"penstock: the inputs were not through after {FUZZ_MOST_SECONDS:g} s", flush=True)
    for number, handler in old.items():
        signal.signal(number, handler)
    counts = "no findings" if code == PASSED else "failed: the findings and their inputs stand above"
    if code not in IN_ORDER:
        counts = f"ended with exit code {code}"
    return Result(Part(FUZZ, ""), code, time.monotonic() - began, None, counts)


def verdict(codes: Sequence[int]) -> int:
    """One exit code: the first that is not a success; selecting nothing is a failure only when every part does."""
    collected = [code for code in codes if code != NOTHING_COLLECTED]
    return next((code for code in collected if code != PASSED), PASSED) if collected else NOTHING_COLLECTED


def main(arguments: Sequence[str]) -> int:
    """Run the parts until one cannot be run to its end, and say how it went."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--part", choices=[*(part.name for part in PARTS), FUZZ])
    parser.add_argument("-m", dest="marks")
    chosen, others = parser.parse_known_args(arguments)
    results: list[Result] = []
    wants_fuzz = chosen.part == FUZZ or (chosen.part is None and not arguments and FUZZ_SCRIPT.exists())
    if chosen.part == FUZZ:
        results.append(fuzz())
    for part in PARTS:
        if chosen.part != part.name if chosen.part is not None else not part.is_default:
            continue
        print(f"\npenstock: tests, part {part.name!r}: {part.marks}", flush=True)
        results.append(run(part, others, chosen.marks))
        if results[-1].code not in IN_ORDER:
            break
        if part is PARTS[0] and wants_fuzz:
            print(f"\npenstock: tests, part {FUZZ!r}: {FUZZ_SECONDS} s of random inputs for each reader", flush=True)
            results.append(fuzz())
            if results[-1].code not in IN_ORDER:
                break
    code = verdict([result.code for result in results])
    print(f"\npenstock: tests {'passed' if code == PASSED else 'NOT passed'}")
    for result in results:
        print(result.line())
        for name in result.failed():
            print(f"    FAILED {name}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
