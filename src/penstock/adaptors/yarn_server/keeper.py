# SPDX-License-Identifier: Apache-2.0
"""Keeps the YARN of `penstock yarn` running until it gets a SIGTERM: ``python -m ...keeper FOLDER``.

The servers are children of its warden. So they end with it, however that ends, and the folder is removed then.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.log_rotation import rotate_logs
from penstock.adaptors.yarn_server.site_files import Queue, YarnPlan
from penstock.adaptors.yarn_server.yarn_cluster import LOGS_FOLDER, YarnCluster

PLAN_FILE = "plan.json"
READY_FILE = "ready.json"
"""There once all nodes are registered: the process that holds the network, and Hadoop's version."""
CLUSTER_FOLDER = "cluster"
_LOOK_SECONDS = 1.0
_ROTATE_EVERY_SECONDS = 60.0


def write_plan(folder: Path, plan: YarnPlan) -> None:
    """Write what a keeper is to start into its folder."""
    (folder / PLAN_FILE).write_text(json.dumps(asdict(plan)))


def read_plan(folder: Path) -> YarnPlan:
    """Read what `write_plan` wrote."""
    plain = json.loads((folder / PLAN_FILE).read_text())
    return YarnPlan(**{**plain, "queues": tuple(Queue(**queue) for queue in plain["queues"])})


def main(folder: Path) -> None:
    """Start the cluster, and keep it until a SIGTERM comes or its ResourceManager ends."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Warden() as warden:
        warden.remove_on_exit(folder)
        with YarnCluster(warden, folder / CLUSTER_FOLDER, read_plan(folder), stop=stop) as cluster:
            ready = {"network": cluster.network_pid, "version": cluster.version}
            draft = folder / f"{READY_FILE}.draft"
            draft.write_text(json.dumps(ready))
            draft.replace(folder / READY_FILE)
            next_rotation = float("-inf")
            while not stop.wait(_LOOK_SECONDS):
                cluster.check_manager()
                if time.monotonic() >= next_rotation:
                    next_rotation = time.monotonic() + _ROTATE_EVERY_SECONDS
                    rotate_logs([folder, cluster.folder / LOGS_FOLDER])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
