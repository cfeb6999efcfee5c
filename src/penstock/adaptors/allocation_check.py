# SPDX-License-Identifier: Apache-2.0
"""The check every allocation passes before an operator is changed."""

from __future__ import annotations

import math

from penstock.errors import ActuationRejectedError
from penstock.records import Allocation


def check_allocation(allocation: Allocation, request_id: str | None = None) -> None:
    """Raise ActuationRejectedError for an allocation that a running application cannot be given."""
    if allocation.size is not None:
        raise ActuationRejectedError(
            f"size: a running application cannot get executors of {allocation.size}; "
            "that needs a restart, which `penstock run` does for an operator with `sizes`",
            target="spark",
            request_id=request_id,
        )
    wrong = [node for node, count in allocation.nodes if not node or count < 1]
    if wrong or len(dict(allocation.nodes)) != len(allocation.nodes):
        raise ActuationRejectedError(
            f"nodes: {allocation.nodes} is not a number of executors for each node; name a node once, with 1 or more",
            target="spark",
            request_id=request_id,
        )
    share = allocation.cpu_share
    if allocation.executors < 1 or not math.isfinite(share) or not 0.0 < share <= 1.0:
        raise ActuationRejectedError(
            f"{allocation.executors} executors with a CPU share of {share}: "
            "an operator needs at least 1 executor and a share above 0 and up to 1",
            target="spark",
            request_id=request_id,
        )
