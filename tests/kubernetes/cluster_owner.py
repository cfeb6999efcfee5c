# SPDX-License-Identifier: Apache-2.0
"""Owns a cluster until it is killed: ``python tests/kubernetes/cluster_owner.py FOLDER``."""

import sys
import time
from pathlib import Path

from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster

if __name__ == "__main__":
    with LocalCluster(Path(sys.argv[1])):
        print("ready", flush=True)
        while True:
            time.sleep(1.0)
