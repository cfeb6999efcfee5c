# SPDX-License-Identifier: Apache-2.0
"""What controllers, masters and agents say to each other: typed messages as MessagePack, in frames of bounded size.

A frame is four bytes, the length of its payload (most significant first), and the payload: one message. Its type is
checked field by field while it is read; nothing received is ever unpickled or evaluated.

A controller asks and the agent replies, one after the other, whoever has opened the connection:

============= ======================================= ==========================================================
request       carries                                 reply, effect
============= ======================================= ==========================================================
Hello         controller, protocol, fence             Welcome: operator, whether CPU shares can be set, metrics
Collect       ack: number of the last reply received  Collected: number, telemetry
Request       action                                  Done; the agent requests the allocation
Release       nothing                                 Done; the agent puts everything back as it was
Open          nothing                                 Done; the agent lifts the CPU cap and keeps the executors
Beat          nothing                                 Done; renews the lease, as every other request does
Stop          nothing                                 Done; the operator ends its query
StopAtBorder  seconds: how long the running batch     Done; the operator ends its query after that batch, and
              may take                                stays until the controller has collected its last batches
============= ======================================= ==========================================================

The agent of a host takes one request alone, from masters:

============= ======================================= ==========================================================
HoldShares    fence, what each executor of each       SharesHeld: who is held, and their CPU. Others are let go.
              application may use                     It renews the lease of all caps
============= ======================================= ==========================================================

Instead of any of these replies there may be a Refusal, with its kind: oversized, malformed, occupied, deposed, metrics,
rejected or actuation. What needs no reply: Subscribe and Pulse to the agent; Reports, Advertise and Goodbye from it.

An agent that connects to a master first proves who it is, and so does the master (`handshake`): Greeting, Challenge,
Introduction, Accepted. No protocol version may change Greeting's first two fields, so that versions can refuse each
other with a clear word.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from penstock.records import Action, ExecutorShare, HeldOnHost, Telemetry

PROTOCOL = 2
REQUEST_LIMIT_BYTES = 64 << 10
REPLY_LIMIT_BYTES = 4 << 20
STRANGER_LIMIT_BYTES = 64 << 10
"""For the frames of those who have not proved who they are."""
MOST_SHARES = 5000
HOLD_LIMIT_BYTES = 4 << 20
"""How many applications `HoldShares` and its answer name, and what the agent of a host takes from a master it knows."""
MOST_INSTANTS, MOST_COUNTED = 50_000, 1_000_000
"""How many arrival times one reply carries, of more a sample; and how many records a sample may stand for."""
_HEADER_BYTES = 4

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Words = Annotated[str, Meta(max_length=4000)]
Count = Annotated[int, Meta(ge=0)]
Nonce = Annotated[bytes, Meta(min_length=16, max_length=64)]
Proof = Annotated[bytes, Meta(max_length=64)]
_Many = Meta(max_length=1000)
_Shares = Meta(max_length=MOST_SHARES)


class OversizedMessageError(ValueError):
    """A frame is too long. It is not read, so the connection must end."""


class MalformedMessageError(ValueError):
    """A frame does not hold a message of this protocol. The next one can still be read."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """A message is an array: its tag and its fields in order. Fields that a later version appends are not read."""


# --- a controller asks -----------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """Take the seat of the controller; `fence` is the number of its lease as a leader, 0 where it needs none."""

    controller: Name
    protocol: int
    fence: Count = 0


class Collect(_Message, frozen=True, tag="collect"):
    """Ask for what is new; `ack` is the number of the last reply received, 0 before the first."""

    ack: Count


class Request(_Message, frozen=True, tag="request"):
    """Ask for an allocation."""

    action: Action


class Release(_Message, frozen=True, tag="release"):
    """Put everything back as it was."""


class Open(_Message, frozen=True, tag="open"):
    """Lift the CPU cap and keep the executors."""


class Beat(_Message, frozen=True, tag="beat"):
    """Renew the lease."""


class Stop(_Message, frozen=True, tag="stop"):
    """End the query."""


class StopAtBorder(_Message, frozen=True, tag="stop_at_border"):
    """End the query after the running batch, which may take so long."""

    seconds: float


class Subscribe(_Message, frozen=True, tag="subscribe"):
    """Send these metrics so often from now on, and no others. None at all ends the reports. No reply."""

    metrics: Annotated[list[Name], _Many]
    every_seconds: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 1.0


class HoldShares(_Message, frozen=True, tag="hold_shares"):
    """Hold the executors of these applications on the agent's host, and of no others; `fence` is that of the master's
    lease. It says what is wanted, not what has changed, and comes again every second."""

    fence: Count
    shares: Annotated[list[ExecutorShare], _Shares]


class Pulse(_Message, frozen=True, tag="pulse"):
    """Say that the master is there. No reply."""


# --- an agent replies ------------------------------------------------------------------------------------------


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """A metric that an agent can give."""

    name: Name
    unit: Annotated[str, Meta(max_length=40)]
    meaning: Annotated[str, Meta(max_length=300)]


Offers = Annotated[list[Offer], _Many]


class Done(_Message, frozen=True, tag="done"):
    """It was done."""


class Welcome(_Message, frozen=True, tag="welcome"):
    """The controller has the seat."""

    operator: Name
    can_set_cpu_share: bool
    metrics: Offers = []


class Instants(msgspec.Struct, frozen=True, array_like=True):
    """Instants in order (`instants`): the first, and the gaps between them in units, as unsigned integers of `width`
    bytes, least significant first. Where fewer than `count` are there, they are a sample, evenly by place."""

    count: Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
    first: float
    gaps: Annotated[bytes, Meta(max_length=4 * MOST_INSTANTS)]
    width: int
    unit_seconds: float
    is_exact: bool


class BatchArrived(msgspec.Struct, frozen=True, array_like=True):
    """When the records arrived that one batch took from one source, both by their places in the telemetry."""

    batch: Count
    source: Count
    times: Instants | None
    done_index: Count | None


class Arrived(msgspec.Struct, frozen=True, array_like=True):
    """When records arrived, for a controller that cannot read the source: those of the batches, how many in all up to
    the time of the telemetry, and those after `start` and up to `end`. None: not known."""

    batches: Annotated[list[BatchArrived], Meta(max_length=10_000)]
    total: Count | None
    start: float
    end: float
    came: Instants | None


class CameThrough(msgspec.Struct, frozen=True, array_like=True):
    """Records that came to the end of the operator at one instant: when they had first arrived at the pipeline."""

    ended_at: float
    arrived: Instants


class Collected(_Message, frozen=True, tag="collected"):
    """What is new, in the reply of this number; `clock` is what the clock of the agent's host shows.

    `arrived`, `came` and `clock` were appended to protocol 2: agents of before do not send them, and masters of before
    do not read them.
    """

    number: Count
    telemetry: Telemetry
    arrived: Arrived | None = None
    came: Annotated[list[CameThrough], Meta(max_length=10_000)] = []
    clock: float | None = None


class SharesHeld(_Message, frozen=True, tag="shares_held"):
    """What came of `HoldShares`, application by application."""

    held: Annotated[list[HeldOnHost], _Shares]


class Refusal(_Message, frozen=True, tag="refusal"):
    """Why it was not done. `retryable`: it may be asked for again."""

    kind: Name
    error: Words
    retryable: bool = False
    request_id: Annotated[str, Meta(max_length=200)] | None = None


class Report(msgspec.Struct, frozen=True, array_like=True):
    """Metrics at one instant, by their places in the agent's list of offers. None: it cannot be read just now."""

    at: float
    values: Annotated[dict[int, float | None], _Many]


class Reports(_Message, frozen=True, tag="reports"):
    """What was subscribed to, oldest first; `dropped` counts reports that were given up since the last message."""

    reports: Annotated[list[Report], _Many]
    dropped: Count = 0


class Advertise(_Message, frozen=True, tag="advertise"):
    """The metrics that can be given now: those of before, in their places, and new ones after them."""

    metrics: Offers


class Goodbye(_Message, frozen=True, tag="goodbye"):
    """The agent ends in order and will not come back."""

    reason: Words = ""


# --- an agent comes to a master --------------------------------------------------------------------------------


class Greeting(_Message, frozen=True, tag="greeting"):
    """The first word of a connection, from the agent."""

    protocol: int
    nonce: Nonce


class Challenge(_Message, frozen=True, tag="challenge"):
    """The master's answer, with the proof that it knows the token."""

    protocol: int
    nonce: Nonce
    proof: Proof


class Introduction(_Message, frozen=True, tag="introduction"):
    """Who the agent is, with the proof that it knows the token.

    `settings` are those of the pipeline as JSON text; empty: it speaks for a host, and nothing is scaled through it.
    `holds_at` is the place whose executors the agent of a host can hold to CPU shares; empty: it cannot, and `why_not`
    says why. Both were appended to protocol 2.
    """

    proof: Proof
    agent: Name
    name: Name
    host: Name
    at: float
    metrics: Offers = []
    settings: Annotated[str, Meta(max_length=60_000)] = ""
    holds_at: Annotated[str, Meta(max_length=200)] = ""
    why_not: Words = ""


class Accepted(_Message, frozen=True, tag="accepted"):
    """The agent is taken; `fence` is the number of the master's lease."""

    fence: Count
    at: float


ToAgent: TypeAlias = (
    Hello | Collect | Request | Release | Open | Beat | Stop | StopAtBorder | HoldShares | Subscribe | Pulse
    | Challenge | Accepted | Refusal
)  # fmt: skip
FromAgent: TypeAlias = (
    Done | Welcome | Collected | SharesHeld | Refusal | Reports | Advertise | Goodbye | Greeting | Introduction
)  # fmt: skip
Reply: TypeAlias = Done | Welcome | Collected | Refusal
Message: TypeAlias = ToAgent | FromAgent

_ENCODER = msgspec.msgpack.Encoder()
_TO_AGENT: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToAgent)
_FROM_AGENT: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromAgent)

M = TypeVar("M")


def frame_of(message: Message) -> bytes:
    """A message as it is sent."""
    payload = _ENCODER.encode(message)
    return len(payload).to_bytes(_HEADER_BYTES, "big") + payload


def read_to_agent(payload: bytes) -> ToAgent:
    """Read what was sent to an agent; raises MalformedMessageError."""
    return _read(_TO_AGENT, payload)  # type: ignore[no-any-return]


def read_from_agent(payload: bytes) -> FromAgent:
    """Read what an agent has sent; raises MalformedMessageError."""
    return _read(_FROM_AGENT, payload)  # type: ignore[no-any-return]


def _read(decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as fault:
        raise MalformedMessageError(f"not a message of protocol {PROTOCOL}: {fault}") from fault


class FrameBuffer:
    """Cuts received bytes into frames, without any input or output of its own.

    Parameters
    ----------
    limit_bytes
        The longest payload that is taken; it may be raised once the far side is known.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()

    def feed(self, received: bytes) -> None:
        """Take bytes as they came."""
        self._buffer += received

    def next_payload(self) -> bytes | None:
        """The next whole payload; None: more bytes are needed.

        Raises
        ------
        OversizedMessageError
            The payload is longer than the limit.
        """
        if len(self._buffer) < _HEADER_BYTES:
            return None
        length = int.from_bytes(self._buffer[:_HEADER_BYTES], "big")
        if length > self.limit_bytes:
            raise OversizedMessageError(f"a message of {length} bytes is longer than {self.limit_bytes}")
        end = _HEADER_BYTES + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_HEADER_BYTES:end])
        del self._buffer[:end]
        return payload
