# SPDX-License-Identifier: Apache-2.0
"""The part of a README that a benchmark writes itself, from what it has kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

BEGIN = "<!-- Written by the benchmark from what was kept; edits here are lost. -->"
END = "<!-- Written until here. -->"


def marked_part(readme: Path) -> list[str]:
    """What stands between the markers now."""
    text = readme.read_text(encoding="utf-8")
    return _around(text, readme)[1].strip("\n").splitlines()


def write_marked_part(readme: Path, lines: Iterable[str]) -> None:
    """Put these lines between the markers, and leave all else as it is."""
    before, _, after = _around(readme.read_text(encoding="utf-8"), readme)
    text = "\n".join(lines).strip("\n")
    readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _around(text: str, readme: Path) -> tuple[str, str, str]:
    before, begin, rest = text.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{readme}: the lines {BEGIN!r} and {END!r} are not there, in this order")
    return before, inside, after
