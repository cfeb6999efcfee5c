# SPDX-License-Identifier: Apache-2.0
"""Records on their way, as columns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ports import FloatArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Records at one operator: when they came there, when they came to the pipeline, which way, and their numbers.

    `way` counts the ways from the pipeline's source to the operator; None where there is only one. `done` is the work
    time (per record), or the time, at which they are or will be done.
    """

    arrived: FloatArray
    origin: FloatArray
    way: IntArray | None
    number: IntArray
    done: FloatArray

    def __len__(self) -> int:
        return len(self.arrived)

    def part(self, which: slice) -> Block:
        """Some of the records, without copying."""
        return Block(
            self.arrived[which],
            self.origin[which],
            None if self.way is None else self.way[which],
            self.number[which],
            self.done[which],
        )

    def sorted_by_done(self) -> Block:
        """The records in the order in which they were done; those done at once stay in theirs."""
        order = np.argsort(self.done, kind="stable")
        return Block(
            self.arrived[order],
            self.origin[order],
            None if self.way is None else self.way[order],
            self.number[order],
            self.done[order],
        )


def join(blocks: list[Block]) -> Block:
    """Put blocks one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        none = np.empty(0)
        return Block(none, none, None, np.empty(0, dtype=np.int64), none)
    ways = [block.way for block in blocks if block.way is not None]
    return Block(
        np.concatenate([block.arrived for block in blocks]),
        np.concatenate([block.origin for block in blocks]),
        np.concatenate(ways) if ways else None,
        np.concatenate([block.number for block in blocks]),
        np.concatenate([block.done for block in blocks]),
    )


class BlockQueue:
    """First in, first out, over blocks: taking copies nothing, however much is waiting."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> Block:
        """The block at the front."""
        return self._blocks[0]

    def put(self, block: Block) -> None:
        """Add a block at the end."""
        if len(block):
            self._blocks.append(block)
            self._count += len(block)

    def take(self, count: int) -> list[Block]:
        """Take `count` records from the front."""
        taken: list[Block] = []
        self._count -= count
        while count > 0:
            block = self._blocks.popleft()
            if len(block) > count:
                self._blocks.appendleft(block.part(slice(count, None)))
                block = block.part(slice(0, count))
            taken.append(block)
            count -= len(block)
        return taken
