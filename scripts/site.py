# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation as a site into build/site; `--check` builds it elsewhere and keeps nothing.

A page that the navigation lacks, a link or an anchor that leads nowhere, and a page that would load something from
another host are failures.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"')\s]+)"""
    r"""|url\(["']?((?:https?:)?//[^"')\s]+)"""
)


def build(folder: Path) -> list[str]:
    """Build the site into a folder. Return what is wrong."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # Material names its successor at every build; CONTRIBUTING.md says what we think of it.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO")]
        return [line for line in said if line.strip()]
    return loaded_from_elsewhere(folder)


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """Return what pages and style sheets would load from another host when they are opened."""
    found = []
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        for match in _LOADED.finditer(path.read_text(encoding="utf-8")):
            address = next(filter(None, match.groups()))
            found.append(f"{path.relative_to(folder)} loads {address}")
    return found


def main() -> int:
    """Build, and say where to look."""
    if "--check" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            faults = build(Path(folder))
    else:
        faults = build(SITE)
    if faults:
        print("the documentation site is not right:\n  " + "\n  ".join(faults), file=sys.stderr)
        return 1
    if "--check" not in sys.argv[1:]:
        print(f"penstock: the site is in {SITE.relative_to(ROOT)}; open {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
