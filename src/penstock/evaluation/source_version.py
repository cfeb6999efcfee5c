# SPDX-License-Identifier: Apache-2.0
"""Which code gave a result: the package's version, and the commit of the source tree it runs from."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path


def source_version() -> dict[str, str | None]:
    """The version, and the commit; None outside a source tree, and marked where `src` has changes of its own."""
    tree = Path(__file__).resolve().parents[3]
    commit = _git(tree, "rev-parse", "HEAD") if (tree / ".git").exists() else None
    if commit is not None and _git(tree, "status", "--porcelain", "--", "src"):
        commit += " with changes"
    return {"version": version("penstock"), "commit": commit}


def _git(tree: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(tree), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
