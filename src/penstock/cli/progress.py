# SPDX-License-Identifier: Apache-2.0
"""Signs of life on stderr while a command calculates; nothing where stderr is not a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[float], None]
Steps = Callable[[str, float], None]
"""Hears what is being done, and how much of all is done, from 0 to 1."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def progress_bar(text: str) -> Iterator[Progress | None]:
    """Show how much is done, and for how long it will take."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=1.0)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def step_bar(text: str) -> Iterator[Steps | None]:
    """Show how much is done and, in words that change, what is being done."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(bar_width=20), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=1.0)
        yield lambda said, done: bar.update(task, description=said, completed=done)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Show that something is done, and since when, where its end is not known."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(text, total=None)
        yield


def calculate_in_one_thread() -> None:
    """Let the libraries of linear algebra use one thread, unless the user's environment says otherwise.

    The matrices here are small. Threads that share them wait for each other actively, which costs four times the
    processor time on a busy machine and saves next to nothing on an idle one. It has to be said before numpy is loaded;
    afterwards this does nothing.
    """
    if "numpy" not in sys.modules:
        for name in _THREAD_VARIABLES:
            os.environ.setdefault(name, "1")
