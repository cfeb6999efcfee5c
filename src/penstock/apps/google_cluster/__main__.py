# SPDX-License-Identifier: Apache-2.0
"""`python -m penstock.apps.google_cluster`: write a trace to try the query on, or check the results of a run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.apps.google_cluster.check import differences, expected_results
from penstock.apps.google_cluster.generated_trace import write_generated
from penstock.apps.google_cluster.results import read_results
from penstock.errors import PenstockError


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all is well, 1 if results differ, 2 if the command is wrong."""
    parser = argparse.ArgumentParser(prog="python -m penstock.apps.google_cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    generate = commands.add_parser("generate", help="write a file like the public trace")
    generate.add_argument("trace", type=Path, help="the file to write; .gz compresses it")
    generate.add_argument("--machines", type=int, default=200)
    generate.add_argument("--tasks", type=int, default=20_000)
    generate.add_argument("--seconds", type=float, default=5400.0, help="of trace time")
    generate.add_argument("--seed", type=int, default=0)
    check = commands.add_parser("check", help="compare results with pandas, to the last digit")
    check.add_argument("output", type=Path, help="the folder with results.json")
    check.add_argument("trace", type=Path)
    check.add_argument("--every", type=int, default=900, help="seconds of trace time from one result to the next")
    check.add_argument("--lateness", type=int, default=0, help="seconds, as the query was given")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "generate":
            write_generated(chosen.trace, chosen.machines, chosen.tasks, chosen.seconds, chosen.seed)
            return 0
        expected = expected_results(chosen.trace, chosen.every, chosen.lateness)
        faults = differences(read_results(chosen.output), expected)
    except PenstockError as fault:
        print(fault, file=sys.stderr)
        return 2
    print("\n".join(faults) or f"all {len(expected)} results are as pandas computes them")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
