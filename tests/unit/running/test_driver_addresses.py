# SPDX-License-Identifier: Apache-2.0
"""The web page of a driver listens on the loopback, also for a master that is not Penstock's."""

from __future__ import annotations

import pytest

from penstock.running.driver_addresses import driver_addresses, own_address


def test_a_driver_of_another_machines_master_is_reachable_and_its_page_is_not() -> None:
    """The page is on the loopback; the driver has the address by which it reaches the master."""
    asked: list[tuple[str, int]] = []

    def towards(host: str, port: int) -> str:
        asked.append((host, port))
        return "10.0.0.7"

    found = driver_addresses("spark://h1:7077,h2:7078", {}, is_local=False, address_towards=towards)
    assert found.environment == {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_PUBLIC_DNS": "127.0.0.1"}
    assert found.configuration == {"spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "10.0.0.7"}
    assert asked == [("h1", 7077)]


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_a_local_driver_has_everything_on_the_loopback(master: str) -> None:
    """Its own addresses are set already."""
    found = driver_addresses(master, {}, is_local=True)
    assert (found.environment, found.configuration) == ({"SPARK_LOCAL_IP": "127.0.0.1"}, {})


@pytest.mark.parametrize("master", ["yarn", "k8s://https://h:443"])
def test_clusters_with_a_proxy_of_their_own_are_left_alone(master: str) -> None:
    """Their proxy must reach the page."""
    found = driver_addresses(master, {}, is_local=False, address_towards=lambda *_: "10.0.0.7")
    assert (found.environment, found.configuration) == ({}, {})


def test_what_the_user_has_set_stays() -> None:
    """A choice of the user's is not overruled."""
    found = driver_addresses("spark://h:7077", {"SPARK_LOCAL_IP": "10.0.0.9"}, is_local=False)
    assert (found.environment, found.configuration) == ({}, {})


def test_the_way_to_a_loopback_is_the_loopback() -> None:
    """The address is that of the interface which leads there."""
    assert own_address("127.0.0.1", 9) == "127.0.0.1"
    assert own_address("no such host.invalid", 9) is None
