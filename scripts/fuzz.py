# SPDX-License-Identifier: Apache-2.0
"""Gives everything that reads what others wrote inputs for a time, and keeps those that break a promise.

    pip install atheris            # optional: it looks which inputs reach new code, and changes those
    python scripts/fuzz.py --seconds 3600 --jobs 2 --folder build/fuzz
    python scripts/fuzz.py --seconds 600 --only amqp --only offsets     # these alone

The readers are the tests of `tests/property/test_fuzzed_*.py`; what they assert has to hold. Each runs in a process of
its own, for so many seconds of processor time. With Atheris (https://github.com/google/atheris) the bytes that
Hypothesis makes inputs from are chosen by the code that they reach. Without it they are Hypothesis's own, in rounds.

For each reader the folder gets a line of counts (`NAME.json`; bytes that are too few to make an input of are not among
the inputs), the inputs worth keeping (`NAME.corpus/`) and one file for each finding: `NAME-NUMBER.txt` with what was
raised. Hypothesis keeps the input too: the test fails with it from then on, and shows the smallest one that it finds.
An input that takes more than a minute of processor time, or memory that grows by more than half a gigabyte, is a
finding.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("tests.property.test_fuzzed_inputs", "tests.property.test_fuzzed_answers")
INSTRUMENTED = ["penstock", "pika", "yaml"]
SLOW_SECONDS = 60.0
MOST_GROWTH_MB = 512
MOST_FINDINGS = 20
LONGEST_BYTES = 2048
SEEDS = 100
"""Random bytes to begin with. From nothing, the fuzzer would try short ones alone, of which few make an input."""
LONGEST_SHOWN = 20_000
"""Letters of an input in the file of a finding."""
LINES_SHOWN, LINE_SHOWN = 12, 2000
"""Of a finding, in the summary."""
END_SECONDS = 20.0
"""How long a reader may take to end when it is told to: one that hangs in C never hears of it."""
STOPPED = 130
"""Exit code after Ctrl-C or SIGTERM, as a shell's."""
ROUND = 2000
"""Inputs of one round without Atheris: Hypothesis remembers those that it has tried."""


class SlowInputError(Exception):
    """An input took more than `SLOW_SECONDS` of processor time."""


class Tally:
    """Counts the inputs that come to one reader, keeps findings, and ends the process when its time is over."""

    def __init__(self, name: str, folder: Path, seconds: float) -> None:
        self.name, self.folder, self.seconds = name, folder, seconds
        self.findings: dict[str, str] = {}
        self.skipped = ""
        self.begin()
        self.first_mb = 0
        self._next_report = 0.0
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGVTALRM, self._is_slow)

    def begin(self) -> None:
        """Count from now on."""
        self.inputs = self.tried = 0
        self.began = time.process_time()

    def try_input(self, attempt: Callable[[], object]) -> None:
        """Try to make one input, and give it to the reader."""
        self.tried += 1
        if self.tried == 1000:
            self.first_mb = memory_mb()
        signal.setitimer(signal.ITIMER_VIRTUAL, SLOW_SECONDS)
        try:
            attempt()
        except Exception as fault:
            self.add(fault)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        used = time.process_time() - self.began
        if used >= self._next_report:
            self.report(used)
            self._next_report = used + 5.0
        if used >= self.seconds or len(self.findings) >= MOST_FINDINGS:
            self._stop()

    def add(self, fault: Exception) -> None:
        """Keep what was raised, once for each place."""
        frames = traceback.extract_tb(fault.__traceback__)
        own = [frame for frame in frames if "/src/penstock/" in frame.filename or "/tests/" in frame.filename]
        last = (own or frames)[-1]
        place = f"{type(fault).__name__} at {Path(last.filename).name}:{last.lineno}"
        if place not in self.findings:
            file = self.folder / f"{self.name}-{len(self.findings) + 1}.txt"
            file.write_text("".join(traceback.format_exception(fault)), encoding="utf-8", errors="backslashreplace")
            self.findings[place] = file.name

    def report(self, used: float) -> None:
        """Write the counts down."""
        newest = memory_mb()
        grown = newest - self.first_mb if self.first_mb else 0
        if grown > MOST_GROWTH_MB:
            self.findings.setdefault(f"memory has grown from {self.first_mb} to {newest} MB", "")
        counts = {"reader": self.name, "inputs": self.inputs, "tried": self.tried, "cpu_seconds": round(used, 1),
                  "grown_mb": grown, "findings": self.findings, "skipped": self.skipped}  # fmt: skip
        draft = self.folder / f"{self.name}.json.draft"
        draft.write_text(json.dumps(counts) + "\n", encoding="utf-8")
        draft.replace(self.folder / f"{self.name}.json")

    def skip(self, why: str) -> None:
        """End the process: nothing can be read here."""
        self.skipped = why
        self._stop()

    def _stop(self, *_: object) -> None:
        self.report(time.process_time() - self.began)
        os._exit(1 if self.findings else 0)  # Atheris's own end would report the signal as a crash

    @staticmethod
    def _is_slow(_number: int, _frame: FrameType | None) -> None:
        raise SlowInputError(f"more than {SLOW_SECONDS:g} s of processor time")


def memory_mb() -> int:
    """The memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() >> 20


def readers() -> dict[str, Any]:
    """The tests that Hypothesis gives inputs to, by name."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name, test in vars(module).items():
            if name.startswith("test_") and hasattr(test, "hypothesis"):
                found[name.removeprefix("test_")] = test
    return found


def run_reader(name: str, folder: Path, seconds: float) -> None:
    """Give one reader inputs until its time is over; does not return."""
    try:
        import atheris
    except ImportError:
        test = readers()[name]
        run_rounds(test, Tally(name, folder, seconds))
    corpus = folder / f"{name}.corpus"
    corpus.mkdir(exist_ok=True)
    seeds = [random.Random(f"{name} {number}").randbytes(LONGEST_BYTES) for number in range(SEEDS)]
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    tally = Tally(name, folder, seconds)
    with atheris.instrument_imports(include=INSTRUMENTED):
        test = readers()[name]
        count_inputs(test, tally)
        for seed in seeds[:10]:  # it may import more when it is first called; what it finds comes again
            with contextlib.suppress(Exception):
                test.hypothesis.fuzz_one_input(seed)
    tally.begin()
    one = test.hypothesis.fuzz_one_input
    # Findings are kept and the fuzzer goes on, so its own limits are out of the way.
    options = [f"-max_len={LONGEST_BYTES}", "-len_control=0", "-timeout=100000", "-rss_limit_mb=0",
               "-print_final_stats=0", "-verbosity=0", "-handle_term=0", "-handle_int=0"]  # fmt: skip
    atheris.Setup(["fuzz", *options, str(corpus)], lambda data: tally.try_input(lambda: one(data)))
    atheris.Fuzz()


def count_inputs(test: Any, tally: Tally) -> None:
    """Count what comes to a reader."""
    inner = test.hypothesis.inner_test

    def counted(*given: Any, **named: Any) -> None:
        tally.inputs += 1
        try:
            inner(*given, **named)
        except Exception as fault:
            fault.add_note(f"the input: {(*given, named)!r}"[:LONGEST_SHOWN])
            raise

    test.hypothesis.inner_test = counted


def run_rounds(test: Any, tally: Tally) -> None:
    """Hypothesis's own inputs, with other random numbers in each round; does not return."""
    from hypothesis import settings

    count_inputs(test, tally)
    inner = test.hypothesis.inner_test

    def tried(*given: Any, **named: Any) -> None:
        tally.try_input(lambda: inner(*given, **named))

    test.hypothesis.inner_test = tried
    # A test takes the decorator `settings` once, and has it already.
    test._hypothesis_internal_use_settings = settings(
        test._hypothesis_internal_use_settings, max_examples=ROUND, database=None
    )
    while True:
        try:
            test()
        except BaseException as fault:
            if type(fault).__name__ != "Skipped":  # pytest's: what it reads with is not installed
                raise
            tally.skip(str(fault))


def run_all(names: list[str], arguments: argparse.Namespace) -> int:
    """One process for each reader, so many at a time; gives the exit code."""
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:  # what an earlier run has found is not of this one
        (folder / f"{name}.json").unlink(missing_ok=True)
    waiting, running = list(names), dict[str, subprocess.Popen[bytes]]()
    broken = list[str]()
    is_through = False
    with contextlib.ExitStack() as logs, ended(running):
        while waiting or running:
            while waiting and len(running) < arguments.jobs:
                name = waiting.pop(0)
                log = logs.enter_context((folder / f"{name}.log").open("wb"))
                command = [sys.executable, __file__, "--reader", name, "--seconds", str(arguments.seconds),
                           "--folder", str(folder)]  # fmt: skip
                running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
            time.sleep(1.0)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code = running.pop(name).returncode
                if code != (1 if found_by(name, folder) else 0):  # what it has counted so far is not all
                    broken.append(name)
                    print(f"{name} ended with {code}: see {folder / f'{name}.log'}", flush=True)
        is_through = True
    code = summary(names, folder)
    return (1 if broken else code) if is_through else STOPPED


def found_by(name: str, folder: Path) -> bool:
    """Whether a reader that has ended wrote down findings."""
    path = folder / f"{name}.json"
    return path.exists() and bool(json.loads(path.read_text(encoding="utf-8"))["findings"])


@contextlib.contextmanager
def ended(running: dict[str, subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the readers in order, with their counts written."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("stopped", flush=True)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def summary(names: list[str], folder: Path) -> int:
    """Print the counts; gives the exit code."""
    has_findings = False
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            print(f"{name}: no counts; see {folder / f'{name}.log'}")
            has_findings = True
            continue
        counts = json.loads(path.read_text(encoding="utf-8"))
        print(f"{name}: {counts['inputs']:,} inputs in {counts['cpu_seconds']:,.0f} s of CPU, memory "
              f"{counts['grown_mb']:+d} MB, {len(counts['findings'])} findings")  # fmt: skip
        if counts["skipped"]:
            print(f"  skipped: {counts['skipped']}")
        for place, file in counts["findings"].items():
            has_findings = True
            print(f"  {place} {file and folder / file}")
            if file:
                said = (folder / file).read_text(encoding="utf-8", errors="replace").splitlines()
                print("\n".join(f"    {line[:LINE_SHOWN]}" for line in said[-LINES_SHOWN:]))
    return 1 if has_findings else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of processor time for each reader")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="readers at a time")
    parser.add_argument("--only", action="append", default=[], metavar="PART",
                        help="readers whose name contains this; may be given several times")  # fmt: skip
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz", help="for counts and findings")
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    if arguments.reader:
        run_reader(arguments.reader, arguments.folder, arguments.seconds)
    known = list(readers())
    for part in arguments.only:
        if not any(part in name for name in known):
            parser.error(f"--only: no reader's name contains {part!r}; there are {', '.join(known)}")
    names = [name for name in known if not arguments.only or any(part in name for part in arguments.only)]
    return run_all(names, arguments)


if __name__ == "__main__":
    sys.exit(main())
