# SPDX-License-Identifier: Apache-2.0
"""The texts of generated log lines: components, each with its messages, and the gaps to fill."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "svc-ingest", "svc-batch", "root")
_FOLDERS = ("data", "logs", "tmp", "warehouse", "checkpoints", "spill", "models", "exports")
_FILES = ("part-00000.parquet", "events.json", "state.delta", "index.bin", "metrics.csv", "offsets.log")
_HOSTS = ("db-primary", "db-replica", "cache-01", "broker-2", "gateway", "worker-7", "worker-12", "auth")
_EXCEPTIONS = (
    "java.io.IOException: Connection reset by peer",
    "java.lang.OutOfMemoryError: Java heap space",
    "java.util.concurrent.TimeoutException: Futures timed out after [30 seconds]",
    "java.nio.channels.ClosedChannelException",
    "java.lang.NullPointerException",
    "org.apache.hadoop.security.AccessControlException: Permission denied",
)
_METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
_PAGES = ("/api/v1/orders", "/api/v1/users", "/login", "/health", "/search?q=valve", "/static/app.js")

# Most frequent component first: the generator gives rank r a weight of 1 / r.
COMPONENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "storage.BlockManager": (
        ("INFO", "Found block rdd_{n}_{n} locally"),
        ("WARN", "Putting block broadcast_{n} failed due to exception {exception}"),
    ),
    "executor.Executor": (
        ("INFO", "Finished task {n}.0 in stage {n}.0 (TID {big}). {big} bytes result sent to driver"),
        ("ERROR", "Exception in task {n}.0 in stage {n}.0 (TID {big}): {exception}"),
    ),
    "network.Shuffle": (
        ("INFO", "Fetched {n} blocks of {big} bytes from {ip}:{port} in {n} ms"),
        ("WARN", "Retrying fetch ({digit}/3) of {n} outstanding blocks from {ip}:{port} after {big} ms"),
    ),
    "http.Access": (
        ("INFO", "{ip} {user} {method} {page} 200 {big} {n}ms"),
        ("WARN", "{ip} {user} {method} {page} 503 {n} {big}ms"),
    ),
    "scheduler.TaskSetManager": (
        ("INFO", "Starting task {n}.0 in stage {n}.0 (TID {big}, {host}, partition {n}, PROCESS_LOCAL)"),
        ("WARN", "Lost task {n}.{digit} in stage {n}.0 (TID {big}, {host}): {exception}"),
    ),
    "auth.Session": (
        ("INFO", "Accepted password for {user} from {ip} port {port} ssh2"),
        ("WARN", "Failed password for invalid user {user} from {ip} port {port} ssh2"),
    ),
    "dfs.DataNode": (
        ("INFO", "Receiving block blk_{big}{big} src: /{ip}:{port} dest: /{ip}:50010"),
        ("INFO", "PacketResponder {digit} for block blk_{big}{big} terminating"),
    ),
    "memory.MemoryStore": (("DEBUG", "Block broadcast_{n} stored as values, estimated size {n}.{digit} KB"),),
    "db.ConnectionPool": (
        ("INFO", "Connection {n} to {host}:{port} returned after {big} ms, {n} idle"),
        ("ERROR", "Connection to {host}:{port} refused for user {user}: {exception}"),
    ),
    "kafka.Fetcher": (("INFO", "Partition events-{n} at offset {big}{n}, lag {big}, leader {host}:{port}"),),
    "gc.Monitor": (("WARN", "GC pause of {n} ms, heap {big}K->{big}K, threshold 200 ms"),),
    "zookeeper.ClientCnxn": (
        ("INFO", "Session establishment complete on server {host}/{ip}:2181, sessionid = 0x{hex}"),
        ("WARN", "Session 0x{hex} for server {host}/{ip}:2181, unexpected error: {exception}"),
    ),
    "cache.LruCache": (("DEBUG", "Evicted {n} entries ({big} bytes) to admit key {hex}"),),
    "fs.Committer": (("INFO", "Renamed /{folder}/_temporary/{n}/{file} to /{folder}/{file}"),),
    "fs.Cleaner": (("ERROR", "Cannot delete /{folder}/{folder}/{file}: {exception}"),),
    "security.Audit": (("INFO", "allowed=true ugi={user} ip=/{ip} cmd=open src=/{folder}/{file} perm=null"),),
    "metrics.Reporter": (("INFO", "cpu={n}.{digit}% rss={big}K open_files={n} threads={n} load={digit}.{n}"),),
    "raft.Election": (("WARN", "Heartbeat from {host} ({ip}) missed for {big} ms, starting election of term {n}"),),
    "config.Watcher": (("INFO", "Reloaded /etc/{folder}/service.conf, checksum {hex}, {digit} keys changed"),),
    "license.Check": (("INFO", "License of tenant {user} valid for {n} days"),),
}

MALFORMED = (
    "\tat org.example.pipeline.Stage${digit}.run(Stage.java:{n})",
    "... caused by {exception}",
    "-- {n} more",
    "kernel [{big}.{n}] eth0 link down",
    "{hex}{hex}{hex}",
    "*** {host} rebooted by {user} ***",
)


def _ip(rng: random.Random) -> str:
    return f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


_FILLINGS: dict[str, Callable[[random.Random], str]] = {
    "n": lambda rng: str(rng.randrange(1000)),
    "big": lambda rng: str(rng.randrange(1000, 10_000_000)),
    "digit": lambda rng: str(rng.randrange(10)),
    "hex": lambda rng: f"{rng.getrandbits(48):012x}",
    "port": lambda rng: str(rng.randrange(1024, 65536)),
    "ip": _ip,
    "user": lambda rng: rng.choice(_USERS),
    "host": lambda rng: rng.choice(_HOSTS),
    "folder": lambda rng: rng.choice(_FOLDERS),
    "file": lambda rng: rng.choice(_FILES),
    "method": lambda rng: rng.choice(_METHODS),
    "page": lambda rng: rng.choice(_PAGES),
    "exception": lambda rng: rng.choice(_EXCEPTIONS),
}
_GAP = re.compile(r"\{(\w+)\}")


def fill(template: str, rng: random.Random) -> str:
    """Return the message of a template, its gaps filled by `rng`."""
    return _GAP.sub(lambda gap: _FILLINGS[gap[1]](rng), template)
