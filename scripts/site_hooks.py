# SPDX-License-Identifier: Apache-2.0
"""What MkDocs is told besides mkdocs.yml: the navigation, and pages of the repository that stand outside docs/.

- The navigation is docs/README.md: its headings, the lines before its lists, and the links in them.
- Markdown pages outside docs/ (README, benchmarks, experiments, ...) become pages of the site, with their pictures.
- A link to anything else in the repository, such as a test, becomes its text and the file's name.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# Under MkDocs' own logger a warning fails a strict build.
_LOG = logging.getLogger("mkdocs.penstock")

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
FRONT = "README.md"
OVERVIEW = "overview.md"
"""Where the repository's own README stands: docs/README.md is the first page."""
OUTSIDE = ("*.md", "benchmarks/**/*.md", "experiments/**/*.md", "benchmarks/**/*.png", "experiments/**/*.png",
           "benchmarks/**/*.svg", "experiments/**/*.svg")  # fmt: skip
PICTURE = "src/penstock/service/page/penstock.svg"

_SECTION = re.compile(r"^## (.+)$")
_GROUP = re.compile(r"^(\S.*):$")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)\)")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from docs/README.md."""
    text = (ROOT / DOCS / FRONT).read_text(encoding="utf-8")
    config.nav = [
        {"Home": [{"All pages": FRONT}, {"What Penstock is": OVERVIEW}]},
        *navigation(text),
        {"Project": [{"Contributing": "CONTRIBUTING.md"}, {"Changelog": "CHANGELOG.md"}]},
    ]
    return config


def navigation(text: str) -> list[Any]:
    """Return the sections of docs/README.md as MkDocs wants them: titles, and pages or groups of pages."""
    sections: list[Any] = []
    into: list[Any] = []
    pages: list[Any] = []
    for line in text.splitlines():
        if found := _SECTION.match(line):
            pages = into = []
            sections.append({found[1]: into})
        elif sections and (found := _GROUP.match(line)):
            pages = []
            into.append({found[1]: pages})
        elif sections and (found := _ENTRY.match(line)):
            pages.append({found[1].replace("`", ""): site_path(DOCS, found[2])})
    return sections


def site_path(folder: str, target: str) -> str:
    """Where the site has a file of the repository that a page in `folder` links to."""
    path = os.path.normpath(PurePosixPath(folder) / target)
    if path == FRONT:
        return OVERVIEW
    return path.removeprefix(DOCS)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what stands outside docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, site_path("", name), abs_src_path=str(path)))
    files.append(File.generated(config, "images/penstock.svg", abs_src_path=str(ROOT / PICTURE)))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Lead links to where the site has their targets; code blocks stay as they are."""
    here = page.file.src_uri
    source = FRONT if here == OVERVIEW else here if (ROOT / here).exists() and here != FRONT else DOCS + here
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _with_links(part, source, here, files) for part in parts)


def _with_links(text: str, source: str, here: str, files: Files) -> str:
    def mended(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        name, hash_sign, anchor = target.partition("#")
        there = site_path(os.path.dirname(source), name)  # noqa: PTH120 (paths of the site, not of this machine)
        if there not in files.src_uris and f"{there}/{FRONT}" in files.src_uris:
            there = f"{there}/{FRONT}"
        if there in files.src_uris:
            leads = os.path.relpath(there, os.path.dirname(here) or ".")  # noqa: PTH120
            return f"{picture}[{words}]({leads}{hash_sign}{anchor})"
        inside = os.path.normpath(PurePosixPath(source).parent / name)
        if (ROOT / inside).exists():
            return f"{words} (`{inside}`)"
        _LOG.warning("%s: %s leads nowhere", source, target)
        return found[0]

    return _LINK.sub(mended, text)
