# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference from the code; `--check` fails when what is there is stale."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
HEADER = "<!-- Written by `make docs` from the code; edits here are lost. -->\n\n"
SETTINGS_INTRODUCTION = """\
A settings file is YAML and describes one pipeline. The same file is run on Spark (`penstock run pipeline.yaml`) and
simulated (`penstock simulate pipeline.yaml`); a wrong one shows all its mistakes at once.

| to | it needs |
|---|---|
| run it | `name`, `arrivals`, and `app` of every operator, each of which reads one input |
| simulate it | `service` or `micro_batch` of every operator, or `--from RUN`; `arrivals`, or `--trace FILE` |

A declared demand is handed to the policy in both, unless the operator says `demand: learnt`.
"""


def settings_page() -> str:
    """Every setting with its type, default and description."""
    from penstock import settings

    parts = [HEADER, "# Settings\n\n", SETTINGS_INTRODUCTION]
    sections: list[tuple[str, type[BaseModel]]] = [
        ("top level", settings.RunSettings),
        ("broker", settings.BrokerSettings),
        ("arrivals", settings.ArrivalsSettings),
        ("operators (a list)", settings.OperatorSettings),
        ("input of an operator, where it is more than a name", settings.InputSettings),
        ("service of an operator", settings.ServiceSettings),
        ("micro_batch of an operator", settings.MicroBatchSettings),
        ("sizes of an operator (a list)", settings.SizeSettings),
        ("policy", settings.PolicySettings),
        ("guards", settings.GuardSettings),
        ("objectives (a list)", settings.PathBound),
        ("restarts", settings.RestartSettings),
        ("resize", settings.ResizeSettings),
        ("cluster", settings.ClusterSettings),
        ("geo of the cluster", settings.GeoSettings),
        ("nodes", settings.NodesSettings),
        ("prices", settings.PriceSettings),
    ]
    for title, model in sections:
        parts.append(f"\n## {title}\n\n{inspect.getdoc(model)}\n\n{_settings_table(model)}")
    return "".join(parts)


def _settings_table(model: type[BaseModel]) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{field.alias or name}` | {_default(field)} | {_cell(field.description)} |")
    return "\n".join(lines) + "\n"


def _default(field: Any) -> str:
    if field.is_required():
        return "needed"
    if field.default_factory is not None:
        return (
            "see below"
            if inspect.isclass(field.default_factory) and issubclass(field.default_factory, BaseModel)
            else "empty"
        )
    if field.default is None or field.default is PydanticUndefined:
        return "none"
    if field.alias == "input":
        return "`arrivals`"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{value}`"


def _cell(text: object) -> str:
    """Text that does not end its cell of a table."""
    return str(text).replace("|", "\\|")


def cli_page() -> str:
    """Every command with its help, as the terminal shows it."""
    from penstock.cli import main as cli

    parts = [HEADER, "# Command line\n"]
    for title, command, context in _commands("penstock", cli, None):
        parts.append(f"\n## {title}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "".join(parts)


def _commands(
    title: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """A command and, below a group, all of its own."""
    name = title.rpartition(" ")[2]
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100, max_content_width=100)
    yield title, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(f"{title} {name}", inner, context)


def records_page() -> str:
    """The records that travel between the stages."""
    from penstock import records, steering

    parts = [HEADER, "# Records\n\n", inspect.getdoc(records) or "", "\n"]
    kinds = [(name, kind, module) for module in (records, steering) for name, kind in vars(module).items()]
    for name, kind, module in kinds:
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__:
            hints = typing.get_type_hints(kind)
            rows = [f"| `{f.name}` | `{_type(hints[f.name])}` |" for f in dataclasses.fields(kind)]
            doc = inspect.getdoc(kind)
            parts.append(f"\n## {name}\n\n{doc}\n\n| field | type |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def _type(hint: Any) -> str:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join("none" if a is type(None) else _type(a) for a in typing.get_args(hint))
    origin = typing.get_origin(hint)
    if origin is not None:
        inner = ", ".join("..." if a is Ellipsis else _type(a) for a in typing.get_args(hint))
        return f"{origin.__name__}[{inner}]"
    return getattr(hint, "__name__", str(hint))


def errors_page() -> str:
    """The tree of errors."""
    from penstock import errors

    return HEADER + "# Errors\n\n" + (inspect.getdoc(errors) or "") + "\n"


def attach_page() -> str:
    """Every argument of `attach`, and what it returns."""
    import penstock

    doc = inspect.getdoc(penstock.attach) or ""
    summary, _, rest = doc.partition("\nParameters\n----------\n")
    parameters, _, raised = rest.partition("\nRaises\n------\n")
    defaults = {p.name: p.default for p in inspect.signature(penstock.attach).parameters.values()}
    rows = []
    for names, meaning in _described(parameters):
        shown = ", ".join(f"`{name}`" for name in names)
        given = ", ".join(
            "needed" if defaults[name] is inspect.Parameter.empty else f"`{defaults[name]!r}`" for name in names
        )
        rows.append(f"| {shown} | {given} | {_cell(_code(meaning))} |\n")
    refused = [f"`{names[0]}`: {_code(meaning)}\n" for names, meaning in _described(raised)]
    parts = [
        HEADER,
        '# attach\n\n```python\nscaler = ps.attach(query, objective=ps.latency(p95="2s"), executors=(1, 8))\n```\n\n',
        _code(summary.strip()),
        "\n\n[Attach to your job](../how-to/attach-to-your-job.md) explains what a job needs.\n",
        "\n## Arguments\n\n| argument | default | meaning |\n|---|---|---|\n",
        *rows,
        "\nIt raises ",
        *refused,
        "\n## What it returns\n\n",
        _code(inspect.getdoc(penstock.Scaler) or ""),
        "\n\n| name | meaning |\n|---|---|\n",
    ]
    for name, member in vars(penstock.Scaler).items():
        described = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and callable(described):
            shown = name if isinstance(member, property) else f"{name}()"
            parts.append(f"| `{shown}` | {_cell(_code((inspect.getdoc(described) or '').splitlines()[0]))} |\n")
    return "".join(parts)


def _described(section: str) -> Iterator[tuple[list[str], str]]:
    """The names and the text of each entry in a section of a docstring."""
    names: list[str] = []
    text: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            if names:
                yield names, " ".join(text)
            names, text = [name.strip() for name in line.split(",")], []
        elif line.strip():
            text.append(line.strip())
    if names:
        yield names, " ".join(text)


def _code(text: str) -> str:
    """Docstrings mark code by two backticks where pages use one."""
    return text.replace("``", "`")


def policies_page() -> str:
    """Every policy that Penstock brings, with its needs and options."""
    from penstock.policies import policy_entries

    parts = [
        HEADER,
        "# Policies\n\n",
        "These policies come with Penstock. `penstock policies [NAME] [--json]` lists them in the terminal,\n"
        "together with those that other packages register. [Write a policy](../how-to/write-a-policy.md)\n"
        "explains how to add one.\n\n"
        "Each of them also takes `rules`: rules around it, which bound or overrule it\n"
        "([Scale with rules](../how-to/scale-with-rules.md)).\n",
    ]
    for entry in policy_entries().values():
        if not entry.build.__module__.startswith("penstock."):
            continue  # what somebody has installed here is not part of Penstock
        shares = (
            "1 (CPU is left alone)"
            if entry.cpu_shares is None
            else ", ".join(f"{share:g}" for share in entry.cpu_shares)
        )
        facts = {
            "default for": entry.default_for or "nothing (has to be named)",
            "needs": ", ".join(sorted(str(need) for need in entry.needs)) or "nothing",
            "plans for a latency bound": "yes" if entry.reads_objective else "no",
            "CPU shares where none are set": shares,
        }
        parts.append(f"\n## {entry.name}\n\n{entry.summary[0].upper()}{entry.summary[1:]}.\n\n")
        parts += [f"- {name}: {value}\n" for name, value in facts.items()]
        parts.append("\n| option | default | meaning |\n|---|---|---|\n")
        parts += [f"| `{o.name}` | `{_yaml(o.default)}` | {o.meaning} |\n" for o in entry.options]
    return "".join(parts)


def _yaml(value: object) -> str:
    """A value as a settings file has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(metric: dict[str, Any]) -> str:
    """A metric's name, with those it had before."""
    older = ", ".join(f"`{name}`" for name in metric["older_names"])
    return f"`{metric['name']}`" + (f" (before: {older})" if older else "")


def metrics_page() -> str:
    """The catalogue of metrics."""
    from penstock.metrics import catalogue

    rows = [f"| {_names(m)} | {m['unit']} | {m['meaning']} | {m['origin']} |" for m in catalogue()]
    return (
        f"{HEADER}# Metrics\n\n`penstock metrics [--json]` lists the same: all that is measured of an operator.\n"
        "A metric that is not known has no value. It is never read as zero.\n\n"
        "| metric | unit | meaning | origin |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def rules_page() -> str:
    """The language of rules, every form side by side."""
    from rules_page import rules_page as page

    return f"{HEADER}# Rules\n\n{page()}"


def prometheus_page() -> str:
    """What `/metrics` gives."""
    from penstock.service.exposed import BUILD_INFO, EXPOSED, OF_MASTER, OPERATOR_LABELS, RUN_INFO

    rows = [
        f"| `{one.sample_name}` | {one.kind} | {', '.join((*OPERATOR_LABELS, *one.labels))} | {one.meaning} |"
        for one in EXPOSED
    ]
    return (
        f"{HEADER}# For Prometheus\n\nWhat `/metrics` of a run gives; `penstock prometheus metrics [--json]` lists "
        "the same. [How to scrape it](../how-to/watch-with-prometheus.md).\n\n"
        "What is not known has no sample. Counters begin at 0 when the service does.\n\n"
        "| name | kind | labels | meaning |\n|---|---|---|---|\n"
        f"| `{BUILD_INFO}` | gauge | version | 1; the version of Penstock |\n"
        f"| `{RUN_INFO}` | gauge | pipeline, policy, mode | 1 for each pipeline that goes on |\n"
        + "".join(f"| `{one.sample_name}` | {one.kind} | | {one.meaning} |\n" for one in OF_MASTER)
        + "\n".join(rows)
        + "\n\nBeside this page are [a dashboard](prometheus-dashboard.json) for Grafana and "
        "[alerts](prometheus-alerts.yml), as `penstock prometheus dashboard` and `alerts` print them.\n"
    )


def prometheus_dashboard() -> str:
    """The dashboard for Grafana."""
    from penstock.service.dashboard import dashboard_text

    return dashboard_text()


def prometheus_alerts() -> str:
    """The alerts."""
    from penstock.service.alert_rules import alert_rules_text

    return alert_rules_text()


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "records.md": records_page,
    "errors.md": errors_page,
    "attach.md": attach_page,
    "policies.md": policies_page,
    "metrics.md": metrics_page,
    "rules.md": rules_page,
    "prometheus.md": prometheus_page,
    "prometheus-dashboard.json": prometheus_dashboard,
    "prometheus-alerts.yml": prometheus_alerts,
}


def main() -> int:
    """Write the pages, or with `--check` compare them."""
    check = "--check" in sys.argv[1:]
    stale = []
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale.append(str(path.relative_to(ROOT)))
        elif not check:
            path.write_text(text, encoding="utf-8")
    if stale:
        print("stale: " + ", ".join(stale) + "; run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
