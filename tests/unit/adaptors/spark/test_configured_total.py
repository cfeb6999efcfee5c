# SPDX-License-Identifier: Apache-2.0
"""How many executors an application asks for when it starts, before anybody has scaled it."""

import pytest

from penstock.adaptors.spark.context_control import configured_total

CORES = {"spark.cores.max": "8", "spark.executor.cores": "2"}


@pytest.mark.parametrize(
    ("master", "conf", "total"),
    [
        ("spark://h:7077", CORES, 4),
        ("spark://h:7077", {"spark.executor.instances": "3"}, 3),
        ("spark://h:7077", {}, None),
        ("yarn", {**CORES, "spark.executor.instances": "3"}, 3),
        ("yarn", CORES, 2),
        ("yarn", {}, 2),
        ("k8s://https://h:6443", {**CORES, "spark.executor.instances": "1"}, 1),
        ("k8s://https://h:6443", CORES, 2),
        ("k8s://https://h:6443", {}, 2),
    ],
)
def test_a_master_reads_its_own_settings(master: str, conf: dict[str, str], total: int | None) -> None:
    """`spark.cores.max` means nothing to YARN and Kubernetes, where Spark asks for two executors if nothing is set."""
    assert configured_total(master, conf) == total
