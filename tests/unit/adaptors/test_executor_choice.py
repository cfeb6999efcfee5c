# SPDX-License-Identifier: Apache-2.0
"""Which executors go first, and how they are read from the driver."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adaptors.spark.executors import ExecutorsByRest, choose_to_remove, executor_states
from penstock.errors import MetricSourceError
from penstock.records import ExecutorState

RECORDED = (Path(__file__).parent / "recorded" / "executors_rest.json").read_text()


def executor(
    executor_id: str, tasks: int = 0, added_at: float | None = 0.0, draining: bool = False, active: bool = True
) -> ExecutorState:
    """An executor with one core."""
    return ExecutorState(executor_id, "host", 1, active, tasks, 0.0, added_at, draining)


def test_the_least_busy_go_first_and_then_the_youngest() -> None:
    """Fewest running tasks first; among equals the one started last."""
    three = [executor("0", 1, 30.0), executor("1", 0, 10.0), executor("2", 0, 20.0)]
    assert choose_to_remove(three, 3) == ("2", "1", "0")
    assert choose_to_remove(three, 1) == ("2",)


def test_the_draining_and_the_dead_are_never_chosen() -> None:
    """Executors that already go are not chosen again, however they are marked."""
    five = [executor("0"), executor("1", draining=True), executor("2"), executor("3", active=False)]
    assert choose_to_remove(five, 9, draining={"2"}) == ("0",)


def test_one_of_unknown_age_counts_as_the_youngest() -> None:
    """An executor the page does not list yet has just been started; among such the highest id goes first."""
    assert choose_to_remove([executor("1"), executor("9", added_at=None), executor("10", added_at=None)], 2) == (
        "10",
        "9",
    )


def test_nothing_to_remove_is_nothing() -> None:
    """A count of zero or less removes nothing."""
    assert choose_to_remove([executor("0")], 0) == ()
    assert choose_to_remove([executor("0")], -2) == ()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.floats(0, 9), st.booleans(), st.booleans()), max_size=8),
    st.integers(-2, 10),
)
def test_the_choice_is_distinct_alive_and_never_too_large(
    made: list[tuple[int, float | None, bool, bool]], count: int
) -> None:
    """Whatever the executors, only living ones that stay are chosen, each once, at most as many as asked."""
    executors = [executor(str(i), *fields) for i, fields in enumerate(made)]
    chosen = choose_to_remove(executors, count)
    free = {e.executor_id for e in executors if e.is_active and not e.is_draining}
    assert len(chosen) == len(set(chosen)) == min(max(count, 0), len(free))
    assert set(chosen) <= free


def test_the_driver_of_a_local_master_is_its_executor() -> None:
    """A driver with cores of its own runs the tasks, so it is the one executor there is."""
    entry = {
        "id": "driver", "hostPort": "h:1", "totalCores": 2, "isActive": True, "activeTasks": 1, "totalDuration": 500,
    }  # fmt: skip
    (state,) = executor_states([entry])
    assert state.cores == 2
    assert executor_states([{**entry, "totalCores": 0}]) == ()


def test_the_rest_interface_is_read_without_the_driver() -> None:
    """A recorded list gives the executors alone, in our units."""
    (state,) = executor_states(json.loads(RECORDED))
    assert state == ExecutorState("2", "127.0.0.1", 1, True, 1, 12.588, 1794771924.692)


class Page(ThreadingHTTPServer):
    """A driver's web page that gives one body, and notes what was asked."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.asked: list[str] = []
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.asked.append(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent."""

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def page() -> Iterator[Page]:
    """A page with the recorded executors."""
    with Page(RECORDED.encode()) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_the_driver_is_asked_directly_whatever_proxy_the_environment_names(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's own page is asked, for its own application, past any http_proxy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    states = ExecutorsByRest(f"http://127.0.0.1:{page.server_port}/", "app-1")()
    assert [s.executor_id for s in states] == ["2"]
    assert page.asked == ["/api/v1/applications/app-1/executors"]


def test_a_disabled_page_names_the_setting() -> None:
    """Without a page the error says which setting brings it back."""
    with pytest.raises(MetricSourceError, match=r"spark\.ui\.enabled=true"):
        ExecutorsByRest(None, "app-1")()


@pytest.mark.parametrize("body", [b"<html>", b"[{}]", b'[{"id": "1"}]', b"7"])
def test_an_unreadable_answer_is_a_retryable_error(body: bytes) -> None:
    """Anything but a list of executors is an error, never an empty list."""
    with Page(body) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(MetricSourceError, match="executors cannot be listed") as caught:
            ExecutorsByRest(f"http://127.0.0.1:{server.server_port}", "app-1")()
        server.shutdown()
    assert caught.value.retryable


def test_a_driver_that_is_gone_is_a_retryable_error() -> None:
    """A refused connection says which address was tried."""
    with pytest.raises(MetricSourceError, match=r"http://127\.0\.0\.1:1/api"):
        ExecutorsByRest("http://127.0.0.1:1", "app-1")()
