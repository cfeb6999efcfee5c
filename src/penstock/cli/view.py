# SPDX-License-Identifier: Apache-2.0
"""Shows a run in progress: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from penstock.cli.panels import OperatorView
from penstock.cli.sparkline import ASCII, BLOCKS
from penstock.loop.cycle import CycleReport
from penstock.money import total_cost
from penstock.settings import RunSettings, objectives_text
from penstock.units import clock, moment

STOPPING = "stopping in order: what this run has taken of the machine is being released"
ALREADY_STOPPING = "already stopping; this takes some seconds (to end at once, use kill -9: nothing stays behind)"


class View(Protocol):
    """Shows a run: a `RunListener` that is opened before and closed after it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Report the phase `text` of the run, and the `fraction` of it that is done."""
        ...

    def report(self, report: CycleReport) -> None:
        """Report one cycle of one operator."""
        ...

    def fault(self, operator: str, text: str) -> None:
        """Report a failed cycle, or something else that the user should know."""
        ...

    def stopping(self, again: bool) -> None:
        """Report that the user asked to stop. `again`: not for the first time. Called inside a signal handler."""
        ...


def make_view(
    settings: RunSettings, console: Console, *, load_seconds: float | None = None, is_live: bool = True
) -> View:
    """Return a live view if the console is a terminal, plain lines otherwise."""
    if is_live and console.is_terminal:
        return LiveView(settings, console, load_seconds)
    return PlainView(settings, console)


def _operator_views(settings: RunSettings) -> dict[str, OperatorView]:
    bases = settings.cost_bases()
    return {o.name: OperatorView(o.name, settings.objective_of(o.name), bases.get(o.name)) for o in settings.operators}


class LiveView:
    """A picture that updates in place, twice a second.

    Parameters
    ----------
    settings, console
        What runs, and where it is shown.
    load_seconds
        How long records arrive. None: not known, and no remaining time is shown.
    clock_now, monotonic
        Wall clock and stopwatch.
    """

    def __init__(
        self,
        settings: RunSettings,
        console: Console,
        load_seconds: float | None = None,
        *,
        clock_now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = f"penstock: {settings.name}"
        self._subtitle = f"mode {settings.mode}, policy {settings.policy.name}"
        self._objective = objectives_text(settings.path_objectives())
        self._operators = _operator_views(settings)
        self._console = console
        self._load_seconds = load_seconds
        self._now, self._monotonic = clock_now, monotonic
        self._began = monotonic()
        self._saw_report = False
        self._phase, self._phase_began = "starting", self._began
        self._fraction: float | None = None
        self._faults, self._last_fault = 0, ""
        self._stopping = ""
        self._lock = threading.RLock()
        self._live = Live(
            console=console, get_renderable=self.render, refresh_per_second=2, transient=False,
            vertical_overflow="ellipsis",
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Show the phase `text` of the run, and the `fraction` of it that is done."""
        with self._lock:
            if text != self._phase:
                self._phase_began = self._monotonic()
            self._phase, self._fraction = text, fraction

    def report(self, report: CycleReport) -> None:
        """Add one cycle of one operator."""
        with self._lock:
            name = report.observation.operator
            self._operators[name].take(report)
            self._saw_report = True

    def fault(self, operator: str, text: str) -> None:
        """Count faults and show the last one."""
        with self._lock:
            self._faults += 1
            self._last_fault = f"{operator}: {text}"

    def stopping(self, again: bool) -> None:
        """Show that the run is being stopped."""
        # Only a plain assignment: a signal may arrive while this very thread renders.
        self._stopping = ALREADY_STOPPING if again else STOPPING

    def render(self) -> RenderableType:
        """Return the current picture."""
        with self._lock:
            width = self._console.width
            blocks = ASCII if self._console.options.ascii_only else BLOCKS
            parts: list[RenderableType] = [self._progress(width - 4)]
            several = len(self._operators) > 1
            for view in self._operators.values():
                if several:
                    parts.append(Rule(view.name, style="dim", align="left"))
                elif view.seen is not None:
                    parts.append(Text(""))
                if view.seen is not None or several:
                    parts.append(view.render(width - 4, self._now(), blocks=blocks, is_short=several))
            total = total_cost(view.cost for view in self._operators.values())
            if several and total is not None:
                parts.append(Text(f"cost      {total}"))
            if self._faults:
                before = f" (and {self._faults - 1} before)" if self._faults > 1 else ""
                parts.append(Text(f"note      {self._last_fault}{before}", style="yellow"))
            if self._stopping:
                parts.append(Text(self._stopping, style="bold yellow"))
            aim = f"objective {self._objective}"
            return Panel(
                Group(*parts), title=f"[bold]{self._title}[/bold]  {aim}", title_align="left",
                subtitle=f"{self._subtitle}  Ctrl-C stops", subtitle_align="right",
                width=width, border_style="dim",
            )  # fmt: skip

    def _progress(self, width: int) -> Table:
        elapsed = self._monotonic() - self._began
        fraction, remaining = self._how_far()
        tail = f"{clock(elapsed)} elapsed" + (f", {clock(remaining)} left" if remaining is not None else "")
        room = max(10, width - len(self._phase) - len(tail) - 2)
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, width - len(tail) - 12))
        table.add_column(width=room)
        table.add_column(no_wrap=True)
        bar = ProgressBar(total=1.0, completed=fraction or 0.0, pulse=fraction is None, width=room)
        table.add_row(Text(self._phase, style="bold"), bar, Text(tail, style="dim"))
        return table

    def _how_far(self) -> tuple[float | None, float | None]:
        """Return how much of the phase is over, and the seconds left of it, or None if not known."""
        if self._fraction is None:
            return None, None
        fraction = min(1.0, max(0.0, self._fraction))
        if self._load_seconds is not None and self._saw_report:
            return fraction, (1 - fraction) * self._load_seconds
        passed = self._monotonic() - self._phase_began
        return fraction, passed * (1 - fraction) / fraction if fraction > 0.02 else None


class PlainView:
    """Prints a line for each phase, change and fault, and every `every_seconds` one for each operator.

    Each begins with the local time and, from the first look on, with the time since then, as `penstock explain` has it.
    """

    def __init__(
        self,
        settings: RunSettings,
        console: Console,
        *,
        every_seconds: float = 10.0,
        clock_now: Callable[[], float] = time.time,
    ) -> None:
        self._operators = _operator_views(settings)
        self._console = console
        self._every = every_seconds
        self._now = clock_now
        self._first_look: float | None = None
        self._said_at: dict[str, float] = {}
        self._phase = ""
        self._last_fault = ""
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def phase(self, text: str, fraction: float | None = None) -> None:  # noqa: ARG002
        """Print the phase `text`. Its progress shows in the lines."""
        if text != self._phase:
            self._phase = text
            self._say(text)

    def report(self, report: CycleReport) -> None:
        """Print changes at once, and the state from time to time."""
        name, now = report.observation.operator, report.observation.at
        if self._first_look is None:
            self._first_look = now
        view = self._operators[name]
        view.take(report)
        if report.decision is not None and report.decision.is_change:
            decision = report.decision
            self._say(f"{name}: {decision.verb}: {decision.change_text}: {decision.reason}", decision.at)
        for outcome in report.outcomes:
            if outcome.status == "failed":
                failed = f"a change failed after {outcome.after_seconds:.0f} s: {outcome.detail}"
                self._say(f"{name}: {failed}", outcome.at)
        if report.exactness is not None:
            self._say(str(report.exactness), report.exactness.at)
        if now - self._said_at.get(name, float("-inf")) >= self._every:
            self._said_at[name] = now
            self._say(view.plain(), now)

    def fault(self, operator: str, text: str) -> None:
        """Print a fault. The same fault in a row is printed once."""
        if (said := f"{operator}: {text}") != self._last_fault:
            self._last_fault = said
            self._say(said)

    def stopping(self, again: bool) -> None:
        """Print that the run is being stopped."""
        # Write straight to the file: a signal may arrive while this very thread writes through the console's buffer.
        os.write(2, f"\n{ALREADY_STOPPING if again else STOPPING}\n".encode())

    def _say(self, text: str, at: float | None = None) -> None:
        when = moment(self._now() if at is None else at, self._first_look)
        with self._lock:
            self._console.print(f"{when}  {text}", markup=False, soft_wrap=True)
