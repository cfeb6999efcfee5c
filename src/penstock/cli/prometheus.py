# SPDX-License-Identifier: Apache-2.0
"""`penstock prometheus`: what `/metrics` gives, a dashboard for Grafana, and alerts."""

from __future__ import annotations

import click

from penstock.cli.failures import debug_option, json_option


@click.group(short_help="For Prometheus and Grafana: what is given, a dashboard, and alerts.")
def prometheus() -> None:
    """For Prometheus and Grafana: what `/metrics` of a run gives, a dashboard, and alerts.

    docs/how-to/watch-with-prometheus.md says how to scrape a run.
    """


@prometheus.command(short_help="A dashboard for Grafana, as JSON.")
@debug_option
def dashboard() -> None:
    """Print a dashboard for Grafana, to import there.

    \b
    Examples:
      penstock prometheus dashboard > penstock.json
    """
    from penstock.service.dashboard import dashboard_text

    click.echo(dashboard_text(), nl=False)


@prometheus.command(short_help="Alerts, as a rules file of Prometheus.")
@debug_option
def alerts() -> None:
    """Print alerts for Prometheus, as a file for its `rule_files`.

    \b
    Examples:
      penstock prometheus alerts > /etc/prometheus/penstock.rules.yml
      penstock prometheus alerts > penstock.rules.yml && promtool check rules penstock.rules.yml
    """
    from penstock.service.alert_rules import alert_rules_text

    click.echo(alert_rules_text(), nl=False)


@prometheus.command("metrics", short_help="Everything that `/metrics` gives.")
@json_option
@debug_option
def given(as_json: bool) -> None:
    """List the samples that `/metrics` of a run gives, with kind, labels and meaning.

    --json prints {"metrics": [...]}: of each name, kind, unit, labels and meaning.
    """
    from rich.table import Table

    from penstock.cli.output import print_json, words_console
    from penstock.service.exposed import EXPOSED, OF_MASTER, OPERATOR_LABELS

    console = words_console(as_json)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("labels", overflow="fold")
    table.add_column("meaning", overflow="fold")
    for one in EXPOSED:
        table.add_row(one.sample_name, one.kind, ", ".join((*OPERATOR_LABELS, *one.labels)), one.meaning)
    for about in OF_MASTER:
        table.add_row(about.sample_name, about.kind, "", about.meaning)
    console.print(table)
    if as_json:
        print_json(
            {
                "metrics": [
                    {
                        "name": one.sample_name,
                        "kind": one.kind,
                        "unit": one.unit,
                        "labels": [*OPERATOR_LABELS, *one.labels],
                        "meaning": one.meaning,
                    }
                    for one in EXPOSED
                ]
                + [
                    {"name": one.sample_name, "kind": one.kind, "unit": "", "labels": [], "meaning": one.meaning}
                    for one in OF_MASTER
                ]
            }
        )
