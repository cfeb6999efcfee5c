# SPDX-License-Identifier: Apache-2.0
"""Turns failures into one clear message and an exit code. A traceback is shown only with `--debug`.

Exit codes: 0 done; 1 something failed; 2 the input was wrong and nothing was started; 130 stopped in order by Ctrl-C or
SIGTERM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.errors import ConfigurationError, PenstockError

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

_DEBUG = "penstock.debug"
F = TypeVar("F", bound=Callable[..., Any])


class Failure(click.ClickException):
    """A failure as the user sees it."""

    exit_code = FAILED


class WrongInput(Failure):
    """The user's input is wrong. Nothing was started."""

    exit_code = BAD_INPUT


class Interrupted(Failure):
    """The user stopped the command, and it could not end in order."""

    exit_code = INTERRUPTED


class PlainErrorsGroup(click.Group):
    """A command group whose commands fail with one message."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Turn Penstock's errors into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            raise  # the reader of our output is gone; click ends quietly
        except Exception as fault:
            if ctx.meta.get(_DEBUG):
                raise
            raise as_failure(fault) from fault


def as_failure(fault: Exception) -> Failure:
    """Return the message and exit code for an error. Defects of Penstock itself are labelled as such."""
    if isinstance(fault, ConfigurationError):
        return WrongInput(str(fault))
    if isinstance(fault, PenstockError):
        return Failure(str(fault))
    if isinstance(fault, ModuleNotFoundError):
        return Failure(f"the Python package {fault.name!r} is missing; `penstock doctor` says how to install it")
    return Failure(f"{type(fault).__name__}: {fault}\nThis is a defect of Penstock; --debug shows where it happened.")


def debug_option(command: F) -> F:
    """Add `--debug` to a command."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_DEBUG] = value

    return click.option(
        "--debug", is_flag=True, expose_value=False, is_eager=True, callback=remember,
        help="Show the traceback of a failure.",
    )(command)  # fmt: skip


def json_option(command: F) -> F:
    """Add `--json` to a command."""
    return click.option(
        "--json", "as_json", is_flag=True,
        help="Print the result as one JSON object on the last line of stdout; everything else goes to stderr.",
    )(command)  # fmt: skip
