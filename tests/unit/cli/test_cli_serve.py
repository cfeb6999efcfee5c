# SPDX-License-Identifier: Apache-2.0
"""`penstock serve`, asked over HTTP while it runs; and `--page` of a run."""

import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def ask_and_stop(token_file: Path, path: str, found: list[Any]) -> None:
    """Wait for the service, ask it, and end it as Ctrl-C does."""
    deadline = time.monotonic() + 120.0
    while not token_file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        known = json.loads(token_file.read_text())
        request = urllib.request.Request(
            f"{known['address']}{path}", headers={"Authorization": f"Bearer {known['read_token']}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found.append(json.load(answer))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def test_files_of_one_folder_are_told_apart_by_their_names(invoke: Callable[..., Any], run_here: Path) -> None:
    """As `attach(store=...)` makes them."""
    token_file, found = run_here.parent / "address.json", list[Any]()
    for name in ("a", "b"):
        (run_here / f"{name}.sqlite").symlink_to(run_here / "knowledge.sqlite")
    asking = threading.Thread(target=ask_and_stop, args=(token_file, "/api/v1/pipelines", found))
    asking.start()
    stores = [part for name in ("a", "b") for part in ("--store", str(run_here / f"{name}.sqlite"))]
    done = invoke("serve", *stores, "--token-file", str(token_file))
    asking.join()
    assert done.exit_code == 0, done.output
    assert [one["name"] for one in found[0]["pipelines"]] == ["a", "b"]


@pytest.mark.parametrize("times", [1, 2])
def test_stored_runs_are_served_until_the_end(invoke: Callable[..., Any], run_here: Path, times: int) -> None:
    """One run is shown by the name of its pipeline, several by their folders; a signal ends it in good order."""
    token_file, found = run_here.parent / "address.json", list[Any]()
    stores = [run_here]
    if times == 2:
        stores.append(run_here.with_name("again"))
        run_here.with_name("again").symlink_to(run_here)
    asking = threading.Thread(target=ask_and_stop, args=(token_file, "/api/v1/pipelines", found))
    asking.start()
    done = invoke(
        "serve", *(part for store in stores for part in ("--store", str(store))), "--token-file", str(token_file)
    )
    asking.join()
    assert done.exit_code == 0, done.output
    names = [one["name"] for one in found[0]["pipelines"]]
    assert names == (["synthetic"] if times == 1 else [run_here.name, "again"])
    assert found[0]["role"] == "read"
    assert re.search(r"http://127\.0\.0\.1:\d+/#token=\S{40,}", done.output)
    assert not token_file.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "other machines"),
        (["--tls-key", "k.pem"], "go together"),
        (["--store", "nowhere"], "does not exist"),
        (["--store", "nowhere"], "for a master, give --store sqlite:nowhere"),
    ],
)
def test_what_cannot_be_served_is_refused(
    invoke: Callable[..., Any], run_here: Path, options: list[str], says: str
) -> None:
    """The message says what to give; nothing listens."""
    done = invoke("serve", *options)
    assert done.exit_code == 2
    assert says in done.output


def test_where_there_is_no_run_the_way_to_a_master_is_said(invoke: Callable[..., Any], here: Path) -> None:
    """Who tries `penstock serve` alone learns both: how to get a run, and how to get a master."""
    done = invoke("serve")
    assert done.exit_code == 2
    assert "there is no run under runs/ here" in done.output
    assert "for a master, give --store sqlite:FOLDER" in done.output


def test_a_run_with_a_page_prints_its_address_and_cleans_up(
    invoke: Callable[..., Any], here: Path, pipeline: Any, no_pictures: None
) -> None:
    """The address with the token is printed before the run begins, and its file is gone with the run."""
    seen: list[bool] = []
    pipeline.before_end = lambda: seen.append((here / "out" / "service.json").exists())
    done = invoke("demo", "--folder", "out", "--no-view", "--page")
    assert done.exit_code == 0, done.output
    assert re.search(r"watch and steer: http://127\.0\.0\.1:\d+/#token=\S{40,}", done.output)
    assert seen == [True]
    assert pipeline.on_started is not None
    assert not (here / "out" / "service.json").exists()


def test_a_run_without_a_page_has_no_service(
    invoke: Callable[..., Any], here: Path, pipeline: Any, no_pictures: None
) -> None:
    """It is off by default."""
    done = invoke("demo", "--folder", "out", "--no-view")
    assert done.exit_code == 0, done.output
    assert "watch and steer" not in done.output
    assert pipeline.on_started is None
