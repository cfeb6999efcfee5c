# SPDX-License-Identifier: Apache-2.0
"""Attaching to a query whose Java side is imitated: what the policy is introduced to, what is kept, what is said."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.adaptors.spark.java_query import java_query, relation_v2

import penstock as ps
from penstock import _attach, _pass_watch, _scaler
from penstock._pass_watch import PassWatch
from penstock._wiring import QueryHold, make_cycle, objective_out_of_reach, objectives_out_of_reach
from penstock.adaptors import query_arrivals
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.query_arrivals import FoundArrivals
from penstock.adaptors.spark.query_facts import QueryFacts
from penstock.cli import main
from penstock.clock import SystemClock, VirtualClock
from penstock.errors import AdaptorError, ConfigurationError, SteeringError
from penstock.evaluation import RunHistory, read_history
from penstock.knowledge import SqliteStore
from penstock.policies.fixed import FixedPolicy
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Action, Allocation, ExecutorState, Prediction, Telemetry

RATE = relation_v2("rate", {"rowsPerSecond": "10"})


class ToyQuery:
    """Measurements and means of a query with two executors that nothing happens to."""

    can_set_cpu_share = True

    def __init__(self) -> None:
        self.closed = 0
        self.opened = threading.Event()

    def collect(self) -> Telemetry:
        """Two executors, no batch."""
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(2))
        return Telemetry("counts", SystemClock().now(), (), executors)

    def request(self, action: Action) -> None:
        """Nothing is asked for."""
        raise AssertionError(action)

    def open_shares(self) -> None:
        """Take note."""
        self.opened.set()

    def release(self) -> None:
        """Nothing to put back."""

    def close(self) -> None:
        """Count it."""
        self.closed += 1


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyQuery:
    """What is held instead of a real query."""
    found = ToyQuery()
    near: Any = found
    monkeypatch.setattr(_attach, "hold_query", lambda *_, **__: QueryHold(near, near, 1, Meters(), (), lambda: None))
    return found


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[PolicyContext]:
    """The pipelines that policies were built for."""
    seen: list[PolicyContext] = []

    def make(_policy: Any, context: PolicyContext, _options: Any = None) -> Any:
        seen.append(context)
        return FixedPolicy()

    monkeypatch.setattr(_attach, "make_policy", make)
    monkeypatch.setattr(_scaler, "make_policy", make)
    return seen


def site(contexts: list[PolicyContext]) -> OperatorSite:
    """The operator as the last policy was introduced to it."""
    return contexts[-1].operators["counts"]


@pytest.mark.usefixtures("toy")
def test_the_policy_knows_trigger_and_cap(contexts: list[PolicyContext]) -> None:
    """Both are read from the query; so they are when the policy is replaced."""
    kafka = relation_v2("kafka", {"maxOffsetsPerTrigger": "500", "subscribePattern": "a.*"})
    with ps.attach(java_query(kafka, trigger="ProcessingTimeTrigger(2000)"), executors=(1, 2)) as scaler:
        assert (site(contexts).trigger_seconds, site(contexts).cap, site(contexts).is_real_time) == (2.0, 500, False)
        count = len(contexts)
        scaler.replace_policy("fixed")
        assert len(contexts) == count + 1
        assert (site(contexts).trigger_seconds, site(contexts).cap) == (2.0, 500)


@pytest.mark.usefixtures("toy")
def test_an_unknown_trigger_stays_unknown_and_is_noted(contexts: list[PolicyContext]) -> None:
    """A note says what plans go without."""
    with ps.attach(java_query(RATE, trigger="FutureTrigger(7)")) as scaler:
        assert site(contexts).trigger_seconds is None
        assert any("FutureTrigger(7) is not known here" in note for note in scaler.notes)


@pytest.mark.usefixtures("toy")
def test_a_real_time_query_is_left_at_the_top(contexts: list[PolicyContext]) -> None:
    """Its latency does not show in batches, and with too few cores it would stand still."""
    query = java_query(RATE, trigger="RealTimeTrigger(60000)")
    with ps.attach(query, executors=(1, 2), cpu_shares=(0.5, 1.0)) as scaler:
        assert site(contexts).is_real_time
        assert (site(contexts).limits.min_executors, site(contexts).limits.top) == (2, Allocation(2))
        assert any("left at 2 executors x 100% CPU" in note for note in scaler.notes)
        assert scaler.latency is None


# --- what the store keeps of the run ---------------------------------------------------------------------------


def history_of(file: Path) -> RunHistory:
    """What `penstock explain` and `penstock report` read."""
    store = SqliteStore.open_readonly(file)
    try:
        return read_history(store)
    finally:
        store.close()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the loop; the bound only ends a failing test."""
    deadline = time.monotonic() + 20.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.usefixtures("toy")
def test_prices_give_a_cost_that_is_kept(tmp_path: Path) -> None:
    """With prices the scaler and its store know the cost; without, neither has one."""
    file, free = tmp_path / "priced.sqlite", tmp_path / "free.sqlite"
    prices = {"core_hour": 3600.0, "currency": "EUR"}
    for store, given in ((file, prices), (free, None)):
        with ps.attach(java_query(RATE), executors=(1, 3), store=store, interval_seconds=0.1, prices=given) as scaler:
            until(lambda scaler=scaler: scaler._account.observed_seconds > 0)  # type: ignore[misc]
        assert (scaler.cost is None) is (given is None)
    kept = history_of(file).summary["cost"]
    assert kept["currency"] == "EUR"
    assert 2 * kept["static"] == pytest.approx(3 * kept["amount"])  # two of three executors were there
    assert history_of(free).summary["cost"] is None
    with pytest.raises(ps.ConfigurationError, match="executor_hour, core_hour or both"):
        ps.attach(java_query(RATE), prices={})


@pytest.mark.usefixtures("toy")
def test_a_store_knows_what_was_wanted(tmp_path: Path) -> None:
    """Objective, limits, mode and policy with its options can be read back while the query runs, and afterwards."""
    file = tmp_path / "scaler.sqlite"
    options = {"upper": 0.6}
    with ps.attach(
        java_query(RATE),
        objective=ps.latency(p95="2s"),
        executors=(1, 3),
        policy="threshold",
        policy_options=options,
        store=file,
    ) as scaler:
        until(lambda: len(scaler.decisions) > 0)
        history = history_of(file)
    assert (history.name, history.operators, history.objective_text) == ("counts", ["counts"], "p95 <= 2.00 s")
    assert history.objective_of("counts") == ps.latency(p95="2s")
    assert history.settings is not None
    assert history.settings["policy"] == {"name": "threshold", "options": options}
    assert history.settings["mode"] == "recommend"
    assert history.settings["operators"] == [
        {"name": "counts", "executors": [1, 3], "cpu_shares": [1.0], "executor_cores": 1}
    ]
    assert history.started_at is not None
    assert history.settings["started_at"] <= history.started_at
    shown = CliRunner().invoke(main, ["report", str(file), "--json"])
    assert shown.exit_code == 0, shown.output
    assert "p95 &lt;= 2.00 s" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("toy")
def test_a_store_that_is_used_again_begins_with_a_new_run(tmp_path: Path) -> None:
    """What a dead run decided is neither shown nor counted for guards; another run of the query is another run."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), store=file) as first:
        until(lambda: len(first.decisions) > 0)
    before = {d.decision_id for d in first.decisions}
    with ps.attach(java_query(RATE, run_id="another"), objective=ps.latency(p95="9s"), store=file) as second:
        until(lambda: len(second.decisions) > 0)
    assert before.isdisjoint(d.decision_id for d in second.decisions)
    history = history_of(file)
    assert history.objective_text == "p95 <= 9.00 s"
    assert [d.decision_id for d in history.decisions] == [d.decision_id for d in second.decisions]
    assert before.isdisjoint(d.decision_id for d in history.decisions)


@pytest.mark.usefixtures("toy")
def test_attaching_again_to_the_same_run_goes_on(tmp_path: Path) -> None:
    """The same run of the query with the same settings: guard times hold across the two."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), store=file) as first:
        until(lambda: len(first.decisions) > 0)
    with ps.attach(java_query(RATE), store=file) as second:
        assert [d.decision_id for d in second.decisions][: len(first.decisions)] == [
            d.decision_id for d in first.decisions
        ]


# --- what the query reads --------------------------------------------------------------------------------------

REPLAY = relation_v2("penstock_replay", {"shape": "constant:rate=10,duration=1h", "startAt": "1000"})


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrival times that cycles were wired with."""
    seen: list[Any] = []
    wire = make_cycle

    def make(*arguments: Any, **named: Any) -> Any:
        seen.append(named["arrival_times"])
        return wire(*arguments, **named)

    monkeypatch.setattr(_attach, "make_cycle", make)
    return seen


@pytest.mark.usefixtures("toy")
def test_a_replay_is_known_exactly(given: list[Any]) -> None:
    """Its options are those of the query."""
    with ps.attach(java_query(REPLAY)) as scaler:
        assert scaler.notes == ()
        assert given[0].arrived_by(1002.05) == 20


@pytest.mark.usefixtures("toy")
def test_arrivals_of_other_sources_are_interpolated_and_noted(given: list[Any]) -> None:
    """One line says so."""
    with ps.attach(java_query(RATE)) as scaler:
        assert given == [None]
        assert scaler.notes == ("arrival times of rate are interpolated between batches",)


class KnownArrivals:
    """Arrival times of somebody who knows none."""

    def of(self, _source: Any) -> None:
        """None of a batch."""

    def arrived_by(self, _at: float) -> None:
        """None by then."""

    def done_index(self, _source: Any) -> None:
        """None done."""


@pytest.mark.usefixtures("toy")
def test_what_the_user_gives_wins(given: list[Any]) -> None:
    """Arrival times of the user's own, or none at all; a word that means nothing is refused."""
    own: Any = KnownArrivals()
    with ps.attach(java_query(REPLAY), arrivals=own) as scaler:
        assert given == [own]
        assert scaler.notes == ()
    with ps.attach(java_query(REPLAY), arrivals="interpolated"):
        assert given == [own, None]
    with pytest.raises(ps.ConfigurationError, match="arrivals: 'exact' is none"):
        ps.attach(java_query(REPLAY), arrivals="exact")  # type: ignore[call-overload]


def test_a_tap_ends_with_the_watch(toy: ToyQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was started is closed at detaching, and when attaching fails after all."""
    closed: list[str] = []
    found = FoundArrivals(None, None, lambda: closed.append("tap"))
    monkeypatch.setattr(query_arrivals, "find_arrivals", lambda _: found)
    with ps.attach(java_query(RATE)):
        assert closed == []
    assert (closed, toy.closed) == (["tap"], 1)
    monkeypatch.setattr(_attach, "begin_run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ps.attach(java_query(RATE))
    assert (closed, toy.closed) == (["tap", "tap"], 2)


# --- objectives that cannot be met -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "trigger", "says"),
    [
        (ps.latency(p95="3s"), 4.0, "p95 <= 3.00 s cannot be met with a trigger of 4.00 s"),
        (
            ps.latency(p99="4s"),
            4.0,
            "p99 <= 4.00 s can hardly be met with a trigger of 4.00 s: .* leaves 40 ms for a batch",
        ),
        (ps.latency(mean="2s"), 4.0, "mean <= 2.00 s cannot be met .* mean comes to 2.00 s and the time of a batch"),
        (ps.latency(mean="3s"), 4.0, None),
        (ps.latency(p95="6s"), 4.0, None),
        (ps.latency(p95="3s"), None, None),
        (ps.keep_up(), 4.0, None),
    ],
)
def test_a_trigger_that_leaves_no_time_is_noticed(
    objective: ps.Objective, trigger: float | None, says: str | None
) -> None:
    """Records that arrive evenly wait for half a trigger interval in the mean, and for 95 % of it at the p95."""
    found = objective_out_of_reach(objective, trigger)
    assert (found is None) == (says is None)
    assert says is None or (found is not None and re.match(says, found) and "set a trigger well below" in found)


@pytest.mark.usefixtures("toy")
def test_an_objective_out_of_reach_is_noted_at_once() -> None:
    """Before anything was measured or planned."""
    query = java_query(REPLAY, trigger="ProcessingTimeTrigger(4000)")
    with ps.attach(query, objective=ps.latency(p95="3s")) as scaler:
        (note,) = scaler.notes
    assert note.startswith("p95 <= 3.00 s cannot be met with a trigger of 4.00 s: records wait for it, so that p95 ")


@pytest.mark.usefixtures("toy")
def test_a_plan_that_breaks_the_bound_is_noted_until_one_keeps_it() -> None:
    """What the policy says about itself, and that its plan is not good enough."""

    class Planner:
        """Predicts what the test sets."""

        name, every_seconds, seconds = "planner", 0.1, 5.0

        def watch(self, _look: Any) -> tuple[str, ...]:
            return ("a plan was abandoned",)

        def close(self) -> None:
            """Nothing was started."""

        def plan(self, request: ps.PlanRequest) -> ps.Decision:
            predicted = Prediction(("counts",), self.seconds, 2.0, {}, {}, "")
            why = "no allocation keeps every bound: the best there is, 5 s of 2 s on counts"
            return ps.Decision(
                "counts", request.at, self.name, request.current, request.current, why, prediction=predicted
            )

    policy = Planner()
    broken = (
        "p95 <= 2.00 s is not kept by the plan: no allocation keeps every bound: the best there is, 5 s of 2 s on "
        "counts; allow more executors or CPU, or set a larger bound"
    )
    with ps.attach(java_query(REPLAY), objective=ps.latency(p95="2s"), policy=policy, interval_seconds=0.1) as scaler:
        until(lambda: scaler.notes == ("a plan was abandoned", broken))
        policy.seconds = 1.0
        until(lambda: scaler.notes == ("a plan was abandoned",))


# --- what is left when it is over ------------------------------------------------------------------------------


@pytest.mark.usefixtures("toy")
def test_an_ended_run_says_what_it_came_to(tmp_path: Path) -> None:
    """As `penstock run` does; a run that goes on, or goes on again, has not ended."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), objective=ps.latency(p95="2s"), policy="fixed", store=file) as scaler:
        until(lambda: len(scaler.decisions) > 0)
        assert not history_of(file).is_ended
    history = history_of(file)
    assert history.is_ended
    assert (history.summary["name"], history.summary["mode"]) == ("counts", "recommend")
    assert history.summary["objective"]["statistic"] == "p95"
    assert history.summary["missed_turns"] == scaler.missed_turns
    assert history.summary["folder"] == str(file)
    assert history.summary["started_at"] <= history.summary["ended_at"]
    with ps.attach(java_query(RATE), objective=ps.latency(p95="2s"), policy="fixed", store=file):
        assert not history_of(file).is_ended
    assert history_of(file).is_ended


@pytest.mark.usefixtures("toy")
def test_the_kept_settings_name_the_policy_that_decides(tmp_path: Path) -> None:
    """After a change of policy `explain` shows the new one; options that are none are refused."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), policy="fixed", store=file) as scaler:
        until(lambda: len(scaler.decisions) > 0)
        scaler.replace_policy("threshold", {"upper": 0.6})
        settings = history_of(file).settings
        with pytest.raises(ps.ConfigurationError, match="policy_options: \\[1\\] are none"):
            scaler.replace_policy("fixed", [1])  # type: ignore[arg-type]
    assert settings is not None
    assert settings["policy"] == {"name": "threshold", "options": {"upper": 0.6}}
    shown = CliRunner().invoke(main, ["explain", str(file)])
    assert "policy threshold" in shown.output


@pytest.mark.usefixtures("toy")
def test_an_attached_query_is_steered(tmp_path: Path) -> None:
    """The orders of a run are there too: each is obeyed, kept in the audit, and gone with the next run."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), policy="fixed", store=file, interval_seconds=0.1) as scaler:
        scaler.pause(reason="deploying", by="ana")
        until(lambda: any(d.reason.startswith("paused by ana") for d in scaler.decisions))
        scaler.resume()
        scaler.set_mode("scale-in-only")
        assert str(scaler.steering.mode) == "scale-in-only"
        with pytest.raises(SteeringError, match="mode recommend"):
            scaler.hold_size(1, for_seconds=60.0)
        with pytest.raises(SteeringError, match="nothing to roll back"):
            scaler.roll_back_policy()
        scaler.replace_policy("threshold", {"upper": 0.6}, reason="trial")
        scaler.roll_back_policy()
        scaler.reset_policy()
    assert [str(e.action) for e in scaler.audit] == [
        "pause", "resume", "mode", "policy", "policy rollback", "reset"
    ]  # fmt: skip
    settings = history_of(file).settings
    assert settings is not None
    assert settings["policy"]["name"] == "fixed"
    with ps.attach(java_query(RATE), policy="threshold", store=file) as scaler:
        assert not scaler.steering.is_steered
        assert scaler.audit == []


@pytest.mark.usefixtures("toy")
def test_a_policy_of_ones_own_cannot_be_built_again() -> None:
    """It is neither reset nor brought back; another one can take its place."""
    with ps.attach(java_query(RATE), policy=FixedPolicy()) as scaler:
        with pytest.raises(SteeringError, match="object of your own"):
            scaler.reset_policy()
        scaler.replace_policy("threshold")
        with pytest.raises(SteeringError, match="object of your own"):
            scaler.roll_back_policy()


@pytest.mark.parametrize(
    "given",
    [5, [5], {"a": 1}, b"x", object(), [["calm.rules"]], "gone.rules", "no_such_module:calm", "rain", 'rule "a":'],
)
def test_rules_that_are_none_are_refused_and_the_query_is_let_go(toy: ToyQuery, given: Any) -> None:
    """Whatever is given as rules, the error is ours and names the mistake, alone and around a policy."""
    for policy in ("rules", "threshold"):
        with pytest.raises(ps.ConfigurationError, match=r"rules|no Python module"):
            ps.attach(java_query(RATE), name="counts", policy=policy, policy_options={"rules": given})
    assert toy.closed in (0, 2)


@pytest.mark.usefixtures("toy")
def test_guards_can_be_left_out(tmp_path: Path) -> None:
    """The word of the settings files is understood here too."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(java_query(RATE), guards="none", store=file):
        settings = history_of(file).settings
    assert settings is not None
    assert settings["guards"] is None


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        (QueryFacts(), {}),
        (QueryFacts(trigger_seconds=2.0, cap=500), {"trigger": 2.0, "input_options": {"maxOffsetsPerTrigger": "500"}}),
        (QueryFacts(is_real_time=True), {"trigger": "realtime"}),
    ],
)
def test_a_store_keeps_trigger_and_cap_where_they_are_known(facts: QueryFacts, kept: dict[str, Any]) -> None:
    """What starts a batch, and how many records it may have, is kept as settings have it."""
    assert _attach._batch_settings(facts) == kept


def test_a_store_that_breaks_opens_the_shares_of_an_attached_query(
    toy: ToyQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some passes that could not be kept, the query is not left at its cap."""
    opened = threading.Event()
    monkeypatch.setattr(toy, "open_shares", opened.set, raising=False)

    def fail(*_: object) -> None:
        raise AdaptorError("database or disk is full", target="store")

    query = java_query(RATE, trigger="ProcessingTimeTrigger(2000)")
    with ps.attach(query, policy="fixed", store=tmp_path / "s.sqlite", interval_seconds=0.1):
        monkeypatch.setattr("penstock.knowledge.sqlite.SqliteStore.add_observation", fail)
        assert opened.wait(30.0)


def test_an_unknown_argument_is_a_mistake_with_the_nearest_name() -> None:
    """A misspelt statistic or argument is a ConfigurationError that names it, not a bare TypeError."""
    with pytest.raises(ConfigurationError, match=r"p59: latency has no such argument; did you mean p95") as latency:
        ps.latency(p59="2s")  # type: ignore[call-arg]
    assert latency.value.field == "p59"
    with pytest.raises(ConfigurationError, match="executor: attach has no such argument; did you mean executors"):
        ps.attach("query", executor=(1, 3))  # type: ignore[call-overload]


def test_of_a_path_the_longest_trigger_is_to_blame() -> None:
    """A run and its check get one line for each operator that rules an objective out, with the path."""
    paths: dict[tuple[str, ...], ps.Objective] = {
        ("parse", "totals"): ps.latency(p95="1s"),
        ("parse", "counts"): ps.latency(p95="30s"),
    }
    found = objectives_out_of_reach(paths, {"parse": 2.0, "totals": 20.0, "counts": None})
    assert list(found) == ["totals"]
    assert found["totals"].startswith("parse -> totals: p95 <= 1.00 s cannot be met with a trigger of 20 s")


class BlockingPolicy(FixedPolicy):
    """Does not return before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def plan(self, request: Any) -> Any:
        """Wait."""
        assert self.goes_on.wait(30.0)
        return super().plan(request)


@pytest.mark.parametrize("mode", ["act", "recommend"])
def test_a_policy_that_does_not_return_keeps_no_cap(
    toy: ToyQuery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """The lease says that the process lives; the cap is lifted all the same. What only recommends has set none."""
    monkeypatch.setattr(_pass_watch, "_LEAST_SECONDS", 0.1)
    monkeypatch.setattr(_pass_watch, "_PASSES", 0.1)
    monkeypatch.setattr(PassWatch.__init__, "__kwdefaults__", {"look_seconds": 0.01, "monotonic": time.monotonic})
    policy = BlockingPolicy()
    with ps.attach(java_query(RATE), executors=(1, 2), mode=mode, policy=policy, warm_up_seconds=0.0):
        assert toy.opened.wait(20.0 if mode == "act" else 0.5) is (mode == "act")
        policy.goes_on.set()
    assert ("CPU shares were opened" in caplog.text) is (mode == "act")
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-pass-watch"]


def test_shares_are_opened_once_until_a_pass_succeeds() -> None:
    """After three intervals, and a minute at least; a cap that could not be lifted is tried again."""
    clock, opened = VirtualClock(), []

    def open_shares() -> None:
        opened.append(clock.now())
        if len(opened) == 1:
            raise OSError("read-only file system")

    watch = PassWatch("a", 100.0, open_shares, monotonic=clock.monotonic)
    for advance, count in ((300.0, 0), (1.0, 1), (1.0, 2), (400.0, 2)):
        clock.advance(advance)
        watch.look()
        assert len(opened) == count
    watch.passed()
    clock.advance(301.0)
    watch.look()
    assert len(opened) == 3
