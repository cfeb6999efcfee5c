# SPDX-License-Identifier: Apache-2.0
"""What doing an experiment again comes to, whatever its kind: words, a table, a picture and plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Progress = Callable[[float], None]
"""Hears how much is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a printed table."""

    heading: str
    is_number: bool = True
    may_fold: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table to print. A row may be None: a line between two sections."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...] | None, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """How an experiment was asked for.

    Parameters
    ----------
    name
        Of the experiment.
    folder
        That has its `config.yaml`, and files beside it that the config names.
    workers
        Processes at once, where the kind computes in several.
    progress
        None: nobody watches.
    say
        Hears, in words, what was done by what takes long. None: nobody listens.
    """

    name: str
    folder: Path
    workers: int = 1
    progress: Progress | None = None
    say: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """An experiment that was done again.

    Parameters
    ----------
    document
        Plain data for JSON, with every figure.
    words
        Lines above the table.
    grids
        The figures, the paper's beside ours.
    picture
        Draws a PNG; called only if somebody wants it.
    remarks
        Lines below the tables.
    runs
        A row for each run, where JSON is to be a list of these; None: it is the document.
    """

    document: dict[str, Any]
    words: tuple[str, ...]
    grids: tuple[Grid, ...]
    picture: Callable[[], bytes]
    remarks: tuple[str, ...] = field(default=())
    runs: list[dict[str, Any]] | None = None
