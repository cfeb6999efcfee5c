# SPDX-License-Identifier: Apache-2.0
"""Rules as YAML. Values are taken as they are written, so that 18:00 stays a time and every mistake has its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from penstock.rules.findings import Findings, Reading
from penstock.rules.nodes import Place, Rule
from penstock.rules.plain_data import to_plain
from penstock.rules.plain_reader import Item, read_policy

_KEY = re.compile(r"(scale|never|at)-")


class _NoAliasLoader(yaml.SafeLoader):
    """Refuses aliases: rules need none, and a few of them can stand for more rules than any machine holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="`*` stands for an alias here; write the value out, or put * into quotes",
                problem_mark=event.start_mark,
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def parse_yaml(text: str, source: str = "") -> Reading:
    """The rules of a YAML text and every mistake in it.

    Examples
    --------
    >>> parse_yaml("rules: [{name: low, keep: matcher, at_least: 3}]").rules[0].operator
    'matcher'
    """
    findings = Findings(source)
    try:
        loader = _NoAliasLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        item = Item("", findings.place(1, 1)) if node is None else _item(node, findings)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = findings.place(1, 1) if mark is None else findings.place(mark.line + 1, mark.column + 1)
        findings.add(
            f"is not YAML: {fault.problem or fault.context}; put text with @, %, *, &, ! or ': ' into quotes", place
        )
        return findings.reading([])
    except yaml.reader.ReaderError as fault:
        before = text[: fault.position]
        place = findings.place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        findings.add("is not YAML: this character is not allowed in it; remove it", place)
        return findings.reading([])
    except (RecursionError, ValueError, OverflowError) as fault:
        findings.add(
            f"is not YAML that can be read ({type(fault).__name__}); write fewer brackets", findings.place(1, 1)
        )
        return findings.reading([])
    return findings.reading(read_policy(item, findings))


def to_yaml(rules: Iterable[Rule]) -> str:
    """All rules as YAML that reads back exactly."""
    return yaml.safe_dump(to_plain(rules), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _item(node: yaml.Node, findings: Findings) -> Item:
    place = _place(node, findings)
    if isinstance(node, yaml.ScalarNode):
        is_null = node.tag == "tag:yaml.org,2002:null" and node.style is None
        return Item("" if is_null else str(node.value), place)
    if isinstance(node, yaml.SequenceNode):
        return Item([_item(entry, findings) for entry in node.value], place)
    inner: dict[str, Item] = {}
    keys: dict[str, Place] = {}
    for key, value in node.value:
        name = _KEY.sub(r"\1_", str(key.value)) if isinstance(key, yaml.ScalarNode) else "?"
        if name in inner:
            raise yaml.MarkedYAMLError(problem=f"`{name}` stands twice; keep one", problem_mark=key.start_mark)
        inner[name], keys[name] = _item(value, findings), _place(key, findings)
    return Item(inner, place, keys)


def _place(node: yaml.Node, findings: Findings) -> Place:
    return findings.place(node.start_mark.line + 1, node.start_mark.column + 1)
