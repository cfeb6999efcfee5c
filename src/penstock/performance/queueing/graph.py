# SPDX-License-Identifier: Apache-2.0
"""The pipeline as a graph: which operator writes and reads which stream, checked to be a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import ConfigurationError


@dataclass(frozen=True)
class Stream:
    """What joins operators; every reader gets a copy of every record.

    `writer` is None for a stream that comes from outside.
    """

    name: str
    writer: str | None
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Path:
    """A way of a record through the pipeline: the stream it comes by, and the operators it passes."""

    source: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class PipelineGraph:
    """Operators and the streams between them, without cycles and without loose ends.

    Raises
    ------
    ConfigurationError
        Listing every fault: a name that stands twice, a stream that names an unknown operator, that nothing reads
        or that is read twice by one operator, an operator that reads nothing, operators in a cycle.

    Examples
    --------
    >>> graph = PipelineGraph(
    ...     ("parse", "count", "alert"),
    ...     (Stream("log", None, ("parse",)), Stream("events", "parse", ("count", "alert"))),
    ... )
    >>> [path.operators for path in graph.paths]
    [('parse', 'count'), ('parse', 'alert')]
    """

    operators: tuple[str, ...]
    streams: tuple[Stream, ...]

    def __post_init__(self) -> None:
        faults = [*_twice("operator", self.operators), *_twice("stream", [stream.name for stream in self.streams])]
        known = set(self.operators)
        for stream in self.streams:
            unknown = [name for name in (stream.writer, *stream.readers) if name is not None and name not in known]
            faults += [f"stream {stream.name!r} names the unknown operator {name!r}" for name in unknown]
            if not stream.readers:
                faults.append(f"stream {stream.name!r} is dangling: no operator reads it; name a reader or remove it")
            faults += [f"stream {stream.name!r}: {fault}" for fault in _twice("reader", stream.readers)]
        read = {reader for stream in self.streams for reader in stream.readers}
        faults += [f"operator {name!r} reads no stream; give it one" for name in self.operators if name not in read]
        if not self.operators:
            faults.append("there is no operator")
        if not faults:
            left = self._in_a_cycle()
            if left:
                faults.append(f"the operators {', '.join(map(repr, left))} form a cycle; a pipeline must not lead back")
        if faults:
            raise ConfigurationError.of_all("pipeline", faults)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Streams that come from outside."""
        return tuple(stream.name for stream in self.streams if stream.writer is None)

    def inputs(self, operator: str) -> tuple[Stream, ...]:
        """Streams an operator reads."""
        return tuple(stream for stream in self.streams if operator in stream.readers)

    def following(self, operator: str) -> tuple[str, ...]:
        """Operators that read what an operator writes, once for each stream."""
        return tuple(reader for stream in self.streams if stream.writer == operator for reader in stream.readers)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operators such that each stands after those it reads from."""
        waiting = {name: [s.writer for s in self.inputs(name) if s.writer is not None] for name in self.operators}
        done: list[str] = []
        while ready := [name for name, writers in waiting.items() if all(writer in done for writer in writers)]:
            done += ready
            for name in ready:
                del waiting[name]
        return tuple(done)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Every way from a source to an operator that writes nothing."""
        return tuple(
            Path(stream.name, way)
            for stream in self.streams
            if stream.writer is None
            for reader in stream.readers
            for way in self._ways(reader)
        )

    def _ways(self, operator: str) -> list[tuple[str, ...]]:
        following = self.following(operator)
        if not following:
            return [(operator,)]
        return [(operator, *way) for reader in following for way in self._ways(reader)]

    def _in_a_cycle(self) -> list[str]:
        left = set(self.operators) - set(self.order)
        # What only comes after a cycle is not part of it.
        while ends := {name for name in left if not any(reader in left for reader in self.following(name))}:
            left -= ends
        return [name for name in self.operators if name in left]


def _twice(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what} {name!r} stands twice" for name in dict.fromkeys(names) if list(names).count(name) > 1]
