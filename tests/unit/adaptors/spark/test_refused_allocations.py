# SPDX-License-Identifier: Apache-2.0
"""What a running application cannot be given is refused with its name."""

from __future__ import annotations

import pytest

from penstock.adaptors.allocation_check import check_allocation
from penstock.errors import ActuationRejectedError
from penstock.records import Allocation, ExecutorSize


@pytest.mark.parametrize(
    ("allocation", "words"),
    [
        (
            Allocation(1, 1.0, ExecutorSize(2, "1g", worth=2.0)),
            "size: a running application cannot get executors of 2 ",
        ),
        (
            Allocation(2, 1.0, nodes=(("a", 1), ("a", 1))),
            "nodes: (('a', 1), ('a', 1)) is not a number of executors for",
        ),
        (Allocation(1, 1.0, nodes=(("a", 2), ("b", -1))), "nodes: (('a', 2), ('b', -1)) is not a number of executors"),
        (Allocation(1, 1.0, nodes=(("a", 1), ("b", 0))), "nodes: (('a', 1), ('b', 0)) is not a number of executors"),
    ],
)
def test_another_size_and_impossible_nodes_are_refused(allocation: Allocation, words: str) -> None:
    """They would be lost without a word otherwise; the request is named too."""
    with pytest.raises(ActuationRejectedError) as fault:
        check_allocation(allocation, "request-1")
    assert str(fault.value).startswith(words)
    assert fault.value.request_id == "request-1"
    check_allocation(Allocation(1, 0.5))
    check_allocation(Allocation(3, nodes=(("a", 2), ("b", 1))))
