# SPDX-License-Identifier: Apache-2.0
"""Who was forked by whom."""

from __future__ import annotations

from pathlib import Path

from penstock.adaptors.cgroups.guard import process_stat


def descendants(proc: str, pid: int) -> set[int]:
    """Return the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path(proc).iterdir():
        if entry.name.isdigit():
            stat = process_stat(proc, entry.name)
            if stat is not None and stat.state not in "ZX":
                children.setdefault(stat.parent, []).append(int(entry.name))
    found: set[int] = set()
    rest = [pid]
    while rest:
        for child in children.get(rest.pop(), []):
            if child not in found:
                found.add(child)
                rest.append(child)
    return found
