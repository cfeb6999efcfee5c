# SPDX-License-Identifier: Apache-2.0
"""Reads rules from where they are: a text file, a YAML file, or a list in a Python module."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from traceback import walk_tb

from penstock.errors import RuleError
from penstock.rules.collected import collected
from penstock.rules.findings import Reading
from penstock.rules.nodes import Rule

_MOST_BYTES = 1_000_000
_KINDS = "name a file that ends in .rules (text) or .yaml, or a list in Python as module:name"


def read_rules(path: str | Path) -> tuple[Rule, ...]:
    """The rules of a file (``calm.rules``, ``calm.yaml``) or of a list in Python (``my_rules:calm``).

    Raises
    ------
    RuleError
        With every mistake, each with its line and column.
    """
    if is_reference(path):
        return _from_python(str(path))
    return parse_file(Path(path)).without_mistakes(str(path))


def is_reference(path: str | Path) -> bool:
    """Whether `path` names a list in Python, not a file."""
    module, colon, name = str(path).partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def parse_file(path: Path) -> Reading:
    """What stands in a file, with every mistake.

    Raises
    ------
    RuleError
        The file cannot be read at all.
    """
    if path.suffix not in (".rules", ".yaml", ".yml"):
        raise RuleError(f"{path}: is no file of rules; {_KINDS}")
    try:
        with path.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as fault:
        raise RuleError(f"{path}: cannot be read: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise RuleError(f"{path}: is not a text file; write it in UTF-8") from fault
    except ValueError as fault:
        raise RuleError(f"{str(path)!r}: is no name of a file; {_KINDS}") from fault
    if len(data) > _MOST_BYTES:
        raise RuleError(f"{path}: is larger than 1 MB; is it a file of rules?")
    if path.suffix == ".rules":
        from penstock.rules.text import parse_text

        return parse_text(text, str(path))
    from penstock.rules.yaml_form import parse_yaml

    return parse_yaml(text, str(path))


def _from_python(reference: str) -> tuple[Rule, ...]:
    module_name, _, name = reference.partition(":")
    try:
        module = import_module(module_name)
        if not hasattr(module, name):
            raise RuleError(f"{reference}: the module {module_name!r} has no {name!r}; give a list of rules that name")
        given = getattr(module, name)
        if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
            given = list(given)  # here, for a generator runs the module's code
    except RuleError:
        raise
    except ModuleNotFoundError as fault:
        if fault.name is not None and (module_name == fault.name or module_name.startswith(f"{fault.name}.")):
            raise RuleError(f"{reference}: there is no Python module {module_name!r}; {_KINDS}") from fault
        raise _failed(fault, module_name) from fault  # it is there, and something that it imports is not
    except (Exception, SystemExit) as fault:
        raise _failed(fault, module_name) from fault
    try:
        return collected(given)
    except RuleError as fault:
        raise fault if fault.line is not None else RuleError(f"{reference}: {fault.message}") from fault


def _failed(fault: BaseException, module_name: str) -> RuleError:
    """The error for a module that fails by itself, at the last of its lines that ran."""
    why = f"{type(fault).__name__}: {fault}"
    line, source = 1, module_name
    if isinstance(fault, SyntaxError):
        why = f"SyntaxError: {fault.msg}"
        line, source = fault.lineno or 1, fault.filename or module_name
    for frame, number in walk_tb(fault.__traceback__):
        if frame.f_globals.get("__name__") == module_name:
            line, source = number, frame.f_code.co_filename
    return RuleError(f"the module {module_name!r} fails when it is read: {why}", line=line, column=1, source=source)
