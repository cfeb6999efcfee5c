# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: its navigation is docs/README.md, and what leads nowhere or elsewhere is found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """What MkDocs is told besides its configuration."""
    return script("site_hooks")


class FakeFiles:
    """The files of a site."""

    src_uris = frozenset({"README.md", "faq.md", "how-to/a.md", "benchmarks/x/README.md", "overview.md"})


def test_the_navigation_has_every_page_of_the_list_in_its_order(hooks: ModuleType) -> None:
    """Headings become sections, a line before a list a group in one, and no page of docs/ is missing."""
    made = hooks.navigation(
        "# All\n\n- [first](a.md)\n\n## How-to\n\nDo:\n\n- [B `c`](how-to/b.md): why.\n\nUndo:\n\n- [D](../D.md)\n\n"
        "## Questions\n\n- [E](e.md)\n"
    )
    assert made == [
        {"How-to": [{"Do": [{"B c": "how-to/b.md"}]}, {"Undo": [{"D": "D.md"}]}]},
        {"Questions": [{"E": "e.md"}]},
    ]
    text = str(hooks.navigation((ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in ROOT.glob("docs/**/*.md")]
    assert [page for page in pages if f"'{page}'" not in text] == ["README.md"]


@pytest.mark.parametrize(
    ("source", "here", "text", "made"),
    [
        ("docs/how-to/a.md", "how-to/a.md", "[b](../../benchmarks/x/README.md#c)", "[b](../benchmarks/x/README.md#c)"),
        ("docs/how-to/a.md", "how-to/a.md", "[b](../../benchmarks/x)", "[b](../benchmarks/x/README.md)"),
        ("README.md", "overview.md", "[b](docs/faq.md), [c](#d)", "[b](faq.md), [c](#d)"),
        ("docs/faq.md", "faq.md", "[b](../README.md) [c](https://c.org)", "[b](overview.md) [c](https://c.org)"),
        ("docs/faq.md", "faq.md", "[the tests](../tests/test_site.py)", "the tests (`tests/test_site.py`)"),
    ],
)
def test_links_lead_to_where_the_site_has_the_page(
    hooks: ModuleType, source: str, here: str, text: str, made: str
) -> None:
    """Pages from outside docs/ are linked at their place in the site; other files of the repository are named."""
    files: Any = FakeFiles()
    assert hooks._with_links(text, source, here, files) == made


def test_a_link_that_leads_nowhere_is_a_warning(hooks: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """It is MkDocs' own kind of warning, which fails the strict build."""
    files: Any = FakeFiles()
    hooks._with_links("[b](absent.md)", "docs/faq.md", "faq.md", files)
    assert [(record.name, record.levelname) for record in caplog.records] == [("mkdocs.penstock", "WARNING")]
    assert "docs/faq.md: absent.md leads nowhere" in caplog.text


def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path) -> None:
    """Scripts, styles, pictures and fonts of other hosts are named; links that a reader follows are not."""
    (tmp_path / "a.html").write_text(
        '<a href="https://fine.org">x</a><link rel="canonical" href="https://fine.org"><script src="x.js"></script>'
        '<script async src="https://one.org/x.js"></script><link rel="stylesheet" href="//two.org/x.css">'
    )
    (tmp_path / "b.css").write_text("a { src: url(https://three.org/f.woff2) } b { background: url(x.png) }")
    assert script("site").loaded_from_elsewhere(tmp_path) == [
        "a.html loads https://one.org/x.js",
        "a.html loads //two.org/x.css",
        "b.css loads https://three.org/f.woff2",
    ]
