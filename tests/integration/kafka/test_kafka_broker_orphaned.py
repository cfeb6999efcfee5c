# SPDX-License-Identifier: Apache-2.0
"""A broker whose starter is gone: it goes too, and leaves its port."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.kill]

SECONDS = 60.0  # ends a failing test only
HOLDER = """
import json, signal, sys, time
from pathlib import Path
from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.process.children import Warden

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored for what runs behind it
with Warden() as warden, KafkaBroker(warden, Path(sys.argv[1])) as broker:
    print(json.dumps([broker.pid, broker.bootstrap_servers]), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.usefixtures("kafka_warden")
def test_a_broker_is_gone_with_the_process_that_started_it(tmp_path: Path, ended_by: signal.Signals) -> None:
    """After kill -9 or Ctrl-C of its starter the broker's process is gone and its port free."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            pid, servers = json.loads(holder.stdout.readline())
            broker = psutil.Process(pid)
            assert broker.is_running()
            holder.send_signal(ended_by)
            assert holder.wait(SECONDS) != 0
        finally:
            holder.kill()
    assert eventually_gone(broker)
    host, _, port = servers.rpartition(":")
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed may linger
        again.bind((host, int(port)))
        again.listen()


def eventually_gone(process: psutil.Process) -> bool:
    """Wait for its end; one that only waits to be collected has ended."""
    deadline = time.monotonic() + SECONDS
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
