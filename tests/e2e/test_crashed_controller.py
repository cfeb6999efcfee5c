# SPDX-License-Identifier: Apache-2.0
"""A controller dies with signal 9 between two of its steps, whichever, and the next one finishes the run.

`make test-long` goes over all points of `penstock.crash_points` in chains: the controllers of one run die one after the
other.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.e2e.control_history import ControlHistory
from tests.e2e.crash_scenarios import CHAINS, Scenario, drivers_of
from tests.e2e.live_run import LiveRun, capped_groups
from tests.e2e.test_outliving import ended_with_the_test, operators_of

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.crash_points import VARIABLE
from penstock.evaluation.source_version import source_version
from penstock.records import Action, Observation

pytestmark = [
    pytest.mark.e2e, pytest.mark.spark, pytest.mark.cgroups, pytest.mark.kill, pytest.mark.timeout(3600),
]  # fmt: skip

MOST_SECONDS = 1200.0
"""For all records of a run. A calm machine takes three minutes; a busy one is no fault of the code."""
GIVEN_UP = "Timed out while waiting for the Python worker to connect back; starting it again"
"""Spark waits for ten seconds for a Python process to start, whatever its settings. That a busy machine needs longer,
and the operator is started again, is no fault of a takeover."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that outlives the runs."""
    with Warden() as warden, KafkaBroker(warden, tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.mark.long
@pytest.mark.parametrize("chain", [name for name, (scenario, _) in CHAINS.items() if not scenario.needs_broker])
def test_the_next_controller_finishes_what_one_that_died_began(
    chain: str, standalone_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Killed at points of a start, a pass, a change of size, a write and an end, one after the other, the run is taken
    over: nothing is lost, done twice, or left with a cap."""
    crash_and_resume(*CHAINS[chain], standalone_cluster, None, tmp_path)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("chain", [name for name, (scenario, _) in CHAINS.items() if scenario.needs_broker])
def test_the_next_controller_sends_what_one_that_died_did_not(
    chain: str, standalone_cluster: EmbeddedCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """The same where operators are joined by topics and the run has a producer: every number is sent once."""
    crash_and_resume(*CHAINS[chain], standalone_cluster, broker, tmp_path)


def crash_and_resume(
    scenario: Scenario, chain: Sequence[str], cluster: EmbeddedCluster, broker: KafkaBroker | None, folder: Path
) -> None:
    """Let controllers die one after the other as the chain says, let the next one finish, and look at all."""
    run_folder, spec = folder / "run", scenario.settings(cluster, broker, scenario.records)
    with ended_with_the_test(run_folder):
        for number, crash in enumerate(chain):
            options = ("--resume",) if number else ()
            with LiveRun(run_folder, spec, *options, environment={VARIABLE: crash}) as run:
                code = run.process.wait(MOST_SECONDS)
                assert code == -signal.SIGKILL, f"it was to die at {crash}, and ended with {code}\n{run.output()}"
                run.wait_for("no cap is left without a controller", lambda: not capped_groups(run), while_running=False)
            assert all(count == 1 for count in drivers_of(run_folder).values()), f"two drivers after {crash}"
            print(f"died at {crash}", flush=True)
        taken_over_at = time.time()
        with LiveRun(run_folder, spec, "--resume") as last:
            seen_most: Counter[str] = Counter()

            def has_ended() -> bool:
                nonlocal seen_most
                seen_most |= drivers_of(run_folder)
                return last.process.poll() is not None

            last.wait_for("the resumed run ends", has_ended, while_running=False, patience_seconds=MOST_SECONDS)
            result = last.result()
            last.wait_for("the operators are gone", lambda: not operators_of(run_folder), while_running=False)
            output = last.output()
        assert max(seen_most.values(), default=1) == 1, "two drivers on one checkpoint"
        assert result["records_due"] == result["records_done"] == scenario.records, output
        restarts = sum(one["restarts"] for one in result["operators"].values()) - output.count(GIVEN_UP)
        assert restarts <= scenario.most_restarts, output
        scenario.check(last, scenario.records)
        check_actions(run_folder, taken_over_at)
        assert not capped_groups(last)


def check_actions(run_folder: Path, taken_over_at: float) -> None:
    """No decision was carried out twice, every action has its decision, and what was carried out was there, with
    executors, CPU share and size: under the last controller until the next change."""
    history = ControlHistory.read(run_folder)
    actions = history.actions
    carried_out = Counter(action.decision_id for action in actions if action.decision_id is not None)
    assert max(carried_out.values(), default=1) == 1, "a decision was carried out twice"
    assert carried_out.keys() <= {decision.decision_id for decision in history.decisions}, "an action has no decision"
    assert len({action.request_id for action in actions}) == len(actions)
    reached = [action for action in actions if any(_is_observed(action, o) for o in history.observations)]
    assert not actions or reached, "nothing that was asked for was ever observed"
    wrong = history.wrong_allocations(taken_over_at)
    assert not wrong, "\n".join(wrong)
    last = [action for action, _ in history.carried_out() if action.at >= taken_over_at]
    print(
        json.dumps(
            {
                "date": datetime.now(UTC).date().isoformat(),
                **source_version(),
                "changes": history.changes(),
                "carried_out_by_the_last_controller": len(last),
            }
        ),
        flush=True,
    )


def _is_observed(action: Action, seen: Observation) -> bool:
    found = seen.cluster.observed
    return seen.at >= action.at and found is not None and found.satisfies(action.target)
