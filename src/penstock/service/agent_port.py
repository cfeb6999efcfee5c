# SPDX-License-Identifier: Apache-2.0
"""Where agents connect to this master: one thread for all of them, and none disturbs another."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import threading
import time
from typing import Protocol

from penstock.adaptors.agent.handshake import HandshakeError, challenge_to, check_answer
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    REPLY_LIMIT_BYTES,
    STRANGER_LIMIT_BYTES,
    Accepted,
    FrameBuffer,
    FromAgent,
    Greeting,
    Introduction,
    MalformedMessageError,
    OversizedMessageError,
    Pulse,
    Refusal,
    frame_of,
    read_from_agent,
)
from penstock.adaptors.loopback import reserve_port
from penstock.service.agent_connection import AgentConnection
from penstock.service.gate import Rate
from penstock.service.server import Site

_LOG = logging.getLogger(__name__)
PULSE_SECONDS = 1.5
_HANDSHAKE_SECONDS = 10.0
_SILENT_AGENT_SECONDS = 90.0
"""An agent that something is scaled through, or that holds executors, answers far more often than that."""
_MOST_AGENTS, _MOST_STRANGERS = 20_000, 1000
_FRAMES_PER_SECOND, _FRAMES_AT_ONCE = 50.0, 500.0
_CHUNK_BYTES = 1 << 16
_BETWEEN_PULSES = 100


class Host(Protocol):
    """Who takes the agents. All methods are called by the event loop, and must return at once."""

    def admit(self, introduction: Introduction, address: str) -> Accepted | Refusal:
        """Whether an agent that has proved who it is can be taken."""
        ...

    def joined(self, connection: AgentConnection) -> None:
        """An agent is there."""
        ...

    def left(self, connection: AgentConnection) -> None:
        """An agent has gone."""
        ...


class AgentPort:
    """Listens for agents in a thread of its own. Use as a context manager.

    Parameters
    ----------
    site
        Where to listen.
    token
        What agents have to know.
    host
        Who takes them.
    """

    def __init__(self, site: Site, token: bytes, host: Host) -> None:
        self._site, self._token, self._host = site, token, host
        self._socket = reserve_port(site.host.strip("[]"), site.port, "agent-port")
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="penstock-agents", daemon=True)
        self._is_there = threading.Event()
        self._ending: asyncio.Event | None = None
        self._connections: set[AgentConnection] = set()
        self._strangers = 0
        self.refused = 0
        """How many connections were refused."""

    def heard_within(self, seconds: float) -> int:
        """How many agents have said something lately."""
        since = self._loop.time() - seconds
        return sum(connection.heard_at >= since for connection in self.connections)

    @property
    def connections(self) -> list[AgentConnection]:
        """The agents that are there."""
        return list(self._connections)

    def drop_all(self) -> None:
        """End every connection: another master leads."""
        for connection in self.connections:
            connection.close()

    def __enter__(self) -> AgentPort:
        self._thread.start()
        self._is_there.wait(10.0)
        return self

    def __exit__(self, *_: object) -> None:
        ending = self._ending
        if ending is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(ending.set)
            self._thread.join(10.0)
        self._socket.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception:  # the service goes on, and says that no agent can come
            _LOG.exception("agents cannot connect any more")
        finally:
            self._is_there.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        context: ssl.SSLContext | None = None
        if self._site.certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self._site.certificate, self._site.key)
        server = await asyncio.start_server(self._meet, sock=self._socket, ssl=context, backlog=1024)
        pulses = asyncio.create_task(self._pulse())
        self._is_there.set()
        await self._ending.wait()
        pulses.cancel()
        server.close()
        for connection in self.connections:
            connection.close()
        await asyncio.sleep(0.05)  # those who were served end by themselves
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)

    async def _pulse(self) -> None:
        frame = frame_of(Pulse())
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            # Here, since with a timeout at every read a report would cost a quarter more.
            silent_since = self._loop.time() - _SILENT_AGENT_SECONDS
            for number, connection in enumerate(self.connections):
                try:
                    is_asked = connection.scales or bool(connection.holds_at)
                    if is_asked and connection.heard_at < silent_since:
                        _LOG.warning("%s: its agent was silent for too long, and is cut off", connection.name)
                        connection.close()
                    else:
                        connection.write(frame)
                except Exception:  # agents take a master without pulses for dead: the others must get theirs
                    _LOG.exception("%s: no pulse", connection.name)
                if number % _BETWEEN_PULSES == 0:
                    await asyncio.sleep(0)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its first byte to its last."""
        peer = writer.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "unknown"
        connection: AgentConnection | None = None
        try:
            frames = FrameBuffer(STRANGER_LIMIT_BYTES)
            connection = await self._shake_hands(reader, writer, frames, address)
            if connection is not None:
                self._connections.add(connection)
                self._host.joined(connection)
                await self._follow(reader, frames, connection)
        except (OversizedMessageError, MalformedMessageError) as fault:
            self._refuse(writer, Refusal("oversized" if isinstance(fault, OversizedMessageError) else "malformed",
                                         str(fault)[:1000]), address)  # fmt: skip
        except TimeoutError:
            self._refuse(writer, Refusal("malformed", "nothing came in time"), address)
        except (OSError, asyncio.IncompleteReadError) as fault:
            _LOG.debug("%s: %s", address, fault)
        except asyncio.CancelledError:
            pass  # the port is closing
        except Exception:  # a defect of ours must not disturb the other agents
            _LOG.exception("the connection of %s failed", address)
        finally:
            if connection is not None:
                self._connections.discard(connection)
                connection.ended()
                self._host.left(connection)
            writer.close()

    async def _shake_hands(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: FrameBuffer, address: str
    ) -> AgentConnection | None:
        if self._strangers >= _MOST_STRANGERS or len(self._connections) >= _MOST_AGENTS:
            self._refuse(writer, Refusal("busy", "too many agents; come again later", retryable=True), address)
            return None
        self._strangers += 1
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                greeting = await self._next(reader, frames)
                if not isinstance(greeting, Greeting):
                    raise MalformedMessageError(f"a Greeting of protocol {PROTOCOL} comes first")
                challenge = challenge_to(greeting, self._token)
                writer.write(frame_of(challenge))
                introduction = await self._next(reader, frames)
                if not isinstance(introduction, Introduction):
                    raise MalformedMessageError("an Introduction comes after the Challenge")
                if not math.isfinite(introduction.at):
                    raise MalformedMessageError(f"its time is {introduction.at}; send seconds since 1970")
                check_answer(introduction, greeting, challenge, self._token)
        except HandshakeError as fault:
            self._refuse(writer, fault.refusal, address)
            return None
        finally:
            self._strangers -= 1
        answer = self._host.admit(introduction, address)
        if isinstance(answer, Refusal):
            self._refuse(writer, answer, address)
            return None
        writer.write(frame_of(answer))
        frames.limit_bytes = REPLY_LIMIT_BYTES
        return AgentConnection(self._loop, writer, introduction, address, time.time() - introduction.at)

    async def _follow(self, reader: asyncio.StreamReader, frames: FrameBuffer, connection: AgentConnection) -> None:
        rate = Rate(per_second=_FRAMES_PER_SECOND, at_once=_FRAMES_AT_ONCE)
        while True:
            while (payload := frames.next_payload()) is not None:
                if not rate.take():
                    raise MalformedMessageError(f"more than {_FRAMES_PER_SECOND:g} messages a second")
                connection.take(read_from_agent(payload))
            received = await reader.read(_CHUNK_BYTES)
            if not received:
                return
            connection.bytes_in += len(received)
            connection.heard_at = self._loop.time()
            frames.feed(received)

    async def _next(self, reader: asyncio.StreamReader, frames: FrameBuffer) -> FromAgent:
        while (payload := frames.next_payload()) is None:
            received = await reader.read(_CHUNK_BYTES)
            if not received:
                raise ConnectionResetError("it has gone")
            frames.feed(received)
        return read_from_agent(payload)

    def _refuse(self, writer: asyncio.StreamWriter, refusal: Refusal, address: str) -> None:
        self.refused += 1
        _LOG.info("%s is refused: %s", address, refusal.error)
        if not writer.transport.is_closing():
            writer.write(frame_of(refusal))
