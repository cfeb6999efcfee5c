# SPDX-License-Identifier: Apache-2.0
"""The command group. Commands import what they need when they run, so that `penstock --help` shows at once."""

from __future__ import annotations

import click

from penstock.cli.agent import agent
from penstock.cli.backtest import backtest
from penstock.cli.characterize import characterize
from penstock.cli.demo import demo
from penstock.cli.doctor import doctor
from penstock.cli.explain import explain
from penstock.cli.failures import PlainErrorsGroup
from penstock.cli.fit import fit
from penstock.cli.forecast import forecast
from penstock.cli.kafka import kafka
from penstock.cli.kubernetes import kubernetes
from penstock.cli.measure import measure
from penstock.cli.policies import metrics, policies
from penstock.cli.predict import predict
from penstock.cli.produce import produce
from penstock.cli.prometheus import prometheus
from penstock.cli.report import report
from penstock.cli.reproduce import reproduce
from penstock.cli.rules import rules
from penstock.cli.run import run
from penstock.cli.serve import serve
from penstock.cli.simulate import simulate
from penstock.cli.solve import solve
from penstock.cli.steer import pause, policy, resume, status
from penstock.cli.trace import trace
from penstock.cli.what_if import what_if
from penstock.cli.yarn import yarn


@click.group(
    name="penstock",
    cls=PlainErrorsGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong input (nothing was started), 130 stopped by Ctrl-C.",
)
@click.version_option(package_name="penstock", prog_name="penstock")
def main() -> None:
    """Keeps streaming pipelines on Apache Spark inside their latency objective with the least resources.

    \b
    Start here:
      penstock doctor          what this machine lacks, and the command that fixes it
      penstock demo            a real pipeline on a real Spark, scaled before your eyes
      penstock explain         why it did what it did
      penstock report          how it went, with pictures
      penstock run FILE        run and scale a pipeline of your own
      penstock status          what happens in a run now, and why; with pause, resume and policy, steer it
      penstock serve           a master for attached queries, with its page; or stored runs, for looking back
      penstock agent           this host's load for a master, and CPU shares of executors on it
      penstock prometheus      a dashboard for Grafana, and alerts
      penstock kafka start     a real Kafka broker on this machine
      penstock kubernetes start  a real Kubernetes of one node on this machine
      penstock yarn start      a real YARN on this machine
      penstock produce TARGET  a load sent into Kafka or RabbitMQ at its own times
      penstock fit TRACE       the arrival processes that describe a trace
      penstock forecast TRACE  how well a load can be forecast, and by which method
      penstock solve QUEUE     mean and percentiles of a queue's response time
      penstock what-if TRACE   latency under many allocations, and the cheapest that will do
      penstock predict         capacity planning: the executors that a rate needs, from a few measurements
      penstock policies        what can decide, what it needs, and its options
      penstock rules           scaling rules of your own: check and explain them
      penstock simulate        what a policy would do on a trace, and what it would cost
      penstock backtest        what other policies would have done in a recorded run
      penstock measure APP     how many records per second an application sustains, by executors
      penstock reproduce       repeat the experiment of a paper, its figures beside ours
    """


for _command in (
    demo, run, status, pause, resume, policy, serve, agent, kafka, kubernetes, yarn, produce, explain, report,
    doctor, fit, trace, forecast, characterize, solve, what_if, predict,
    measure, simulate, backtest, reproduce, policies, rules, metrics, prometheus,
):  # fmt: skip
    main.add_command(_command)
