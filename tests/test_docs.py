# SPDX-License-Identifier: Apache-2.0
"""The documents say what is: links lead somewhere, settings files in them are valid, snippets compile."""

import re
from pathlib import Path

import pytest
import yaml

from penstock.rules import read_rules
from penstock.rules.text import parse_text
from penstock.rules.yaml_form import parse_yaml
from penstock.settings import load_settings, parse_settings

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file or folder of the repository."""
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_snippets_compile(page: Path) -> None:
    """Every Python block of a page is Python."""
    wrong = []
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        try:
            compile(snippet, str(page), "exec")
        except SyntaxError as fault:
            wrong.append(f"{fault}\n{snippet}")
    assert wrong == []


def test_settings_in_documents_and_examples_are_valid() -> None:
    """Every settings file shown or shipped passes the validation a user's file goes through."""
    shipped = list(ROOT.glob("examples/*.yaml"))
    assert len(shipped) >= 2
    for path in shipped:
        load_settings(path)
    shown = 0
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            data = yaml.safe_load(block)
            if isinstance(data, dict) and "operators" in data:
                parse_settings(data, str(page))
                shown += 1
    assert shown >= 1


def test_rules_in_documents_are_right() -> None:
    """Every rule shown as text or YAML, or shipped, is read without a mistake."""
    shown = 0
    for path in ROOT.glob("examples/*.rules"):
        assert read_rules(path)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        readings = [parse_text(block) for block in re.findall(r"```rules\n(.*?)```", text, re.DOTALL)]
        blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        readings += [parse_yaml(block) for block in blocks if re.match(r"rules:|- (\{)?name:", block)]
        for reading in readings:
            assert reading.mistakes == (), page
            assert reading.rules
            shown += 1
    assert shown >= 20


def test_every_document_is_about_the_project_alone() -> None:
    """No absolute path of a machine stands in a document."""
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(root|home|work)/", page.read_text(encoding="utf-8")), page
