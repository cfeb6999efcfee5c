# SPDX-License-Identifier: Apache-2.0
"""Many agents in one process, each with a connection and a handshake of its own: the frames are the real ones."""

from __future__ import annotations

import asyncio
import random
import time

from penstock.adaptors.agent.handshake import answer_to, new_greeting
from penstock.adaptors.agent.wire import (
    REQUEST_LIMIT_BYTES,
    Accepted,
    Challenge,
    FrameBuffer,
    Introduction,
    Offer,
    Report,
    Reports,
    Subscribe,
    ToAgent,
    frame_of,
    read_to_agent,
)

OFFERS = [Offer("own_load", "", "A number."), *(Offer(f"own_load{n}", "", "A number.") for n in range(9))]
_PLACES = {offer.name: place for place, offer in enumerate(OFFERS)}
_AT_ONCE = 20


class Load:
    """Agents that report what they are asked for.

    Parameters
    ----------
    place, token
        Where the master is, and what it wants to know.
    agents
        How many.
    """

    def __init__(self, place: tuple[str, int], token: bytes, agents: int) -> None:
        self._place, self._token, self.agents = place, token, agents
        self._tasks: list[asyncio.Task[None]] = []
        self._bad: list[asyncio.Task[None]] = []
        self._wanted: dict[int, Subscribe] = {}
        self.lost = 0
        self.reports = self.bytes_in = self.bytes_out = 0

    @property
    def is_subscribed(self) -> bool:
        """Whether anybody wants reports."""
        return any(wanted.metrics for wanted in self._wanted.values())

    def reset(self) -> None:
        """Count from now on."""
        self.reports = self.bytes_in = self.bytes_out = 0

    async def connect(self) -> None:
        """Connect all, some at once."""
        for first in range(0, self.agents, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, self.agents))
            opened = await asyncio.gather(*(self._introduce(f"agent {number}") for number in some))
            for number, (reader, writer, frames) in zip(some, opened, strict=True):
                self._tasks.append(asyncio.create_task(self._listen(number, reader, frames)))
                self._tasks.append(asyncio.create_task(self._report(number, writer)))

    async def misbehave(self) -> None:
        """Twenty more that send nonsense over and over, twenty that never read, and twenty that stop in a frame."""
        for number in range(20):
            self._bad += [
                asyncio.create_task(self._nonsense()),
                asyncio.create_task(self._deaf(f"deaf {number}")),
                asyncio.create_task(self._half(f"half {number}")),
            ]

    def close(self) -> None:
        """End all."""
        for task in (*self._tasks, *self._bad):
            task.cancel()

    async def _introduce(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, FrameBuffer]:
        reader, writer = await asyncio.open_connection(*self._place)
        frames, greeting = FrameBuffer(REQUEST_LIMIT_BYTES), new_greeting()
        writer.write(frame_of(greeting))
        challenge = await _next(reader, frames)
        assert isinstance(challenge, Challenge)
        proof = answer_to(challenge, greeting, self._token)
        writer.write(frame_of(Introduction(proof, name, name, "benchmark", time.time(), OFFERS)))
        accepted = await _next(reader, frames)
        assert isinstance(accepted, Accepted), accepted
        return reader, writer, frames

    async def _listen(self, number: int, reader: asyncio.StreamReader, frames: FrameBuffer) -> None:
        while received := await reader.read(1 << 16):
            self.bytes_in += len(received)
            frames.feed(received)
            while (payload := frames.next_payload()) is not None:
                message = read_to_agent(payload)
                if isinstance(message, Subscribe):
                    self._wanted[number] = message
        self.lost += 1

    async def _report(self, number: int, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(random.random())
        due = time.monotonic()
        while True:
            wanted = self._wanted.get(number)
            if wanted is not None and wanted.metrics:
                values: dict[int, float | None] = {_PLACES[name]: random.random() for name in wanted.metrics}
                frame = frame_of(Reports([Report(time.time(), values)]))
                writer.write(frame)
                self.reports += 1
                self.bytes_out += len(frame)
            due += 1.0 if wanted is None else wanted.every_seconds
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _nonsense(self) -> None:
        while True:
            _, writer = await asyncio.open_connection(*self._place)
            writer.write(random.randbytes(2000))
            await asyncio.sleep(0.5)
            writer.close()

    async def _deaf(self, name: str) -> None:
        _, writer, _ = await self._introduce(name)
        while not writer.is_closing():
            await asyncio.sleep(1.0)

    async def _half(self, name: str) -> None:
        _, writer, _ = await self._introduce(name)
        writer.write((1000).to_bytes(4, "big") + b"half of it")
        while not writer.is_closing():
            await asyncio.sleep(1.0)


async def _next(reader: asyncio.StreamReader, frames: FrameBuffer) -> ToAgent:
    while (payload := frames.next_payload()) is None:
        received = await reader.read(1 << 16)
        if not received:
            raise ConnectionResetError("the master has closed the connection")
        frames.feed(received)
    return read_to_agent(payload)
