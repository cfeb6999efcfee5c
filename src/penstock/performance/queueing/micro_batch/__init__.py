# SPDX-License-Identifier: Apache-2.0
"""The micro-batch queue: the server, the solver and its answer.

==============  ====================================================================================
Module          Contents
==============  ====================================================================================
server          `MicroBatch`: fixed and per-record time, trigger, cap
batch_times     quadrature points of batch times that vary, and the phase of the trigger
spectra         exponentials of D(z), from eigenvectors of the arrival process
arrival_counts  distribution of the number of arrivals during a batch
backlog_grid    numbers of waiting records that the chain distinguishes
moves           transition probabilities between them
chain           stationary vector, and means over a cycle
latency_law     distribution of a record's latency
solver          `MicroBatchSolver`: refines the grid until the answer is accurate
==============  ====================================================================================
"""

from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.performance.queueing.micro_batch.solver import (
    EXACT,
    MicroBatchAnswer,
    MicroBatchSolver,
    Suffices,
    solve_micro_batch,
)

__all__ = ["EXACT", "MicroBatch", "MicroBatchAnswer", "MicroBatchSolver", "Suffices", "solve_micro_batch"]
