# SPDX-License-Identifier: Apache-2.0
"""The benchmark applications by name: what each is and what it reads.

Nine are those of Imai, Patterson and Varela's paper on maximum sustainable throughput (Secs. 4.4.2 and 5.1): three that
each need one resource most, five typical ones of Intel's Storm benchmarks, and one that learns. The tenth is that of
the Gesscale paper (Arkian, Pierre, Tordsson and Elmroth, 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from penstock.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Application:
    """An application that can be run, and measured, by its name."""

    name: str
    app: str
    """``module:function``, as a pipeline file names it."""
    payload: str
    """Its input: the replay source's and `penstock produce`'s payload."""
    units: tuple[str, ...]
    """Its processing units, from the source on."""
    stresses: str
    """The resource that it needs most."""
    meaning: str
    """What it does, in a line."""


def _application(name: str, payload: str, units: str, stresses: str, meaning: str) -> Application:
    function = name.replace("-", "_")
    return Application(
        name, f"penstock.apps.{function}:{function}", payload, tuple(units.split(", ")), stresses, meaning
    )


APPLICATIONS: Mapping[str, Application] = {
    application.name: application
    for application in (
        _application("word-count", "text", "source, split, count", "CPU", "counts each word of all lines so far"),
        _application("sol", "text", "source, forward, forward", "network", "passes records on without any work"),
        _application(
            "rolling-sort", "text", "source, sort", "memory",
            "keeps the newest records in ring buffers and sorts them every minute",
        ),
        _application(
            "grep", "text", "source, match, count", "CPU", "counts the lines that a regular expression is found in"
        ),
        _application(
            "rolling-count", "text", "source, split, count", "CPU", "counts each word of a minute, once it is over"
        ),
        _application(
            "unique-visitor", "web-log", "source, parse, count", "memory", "counts the different visitors of each site"
        ),
        _application("page-view", "web-log", "source, parse, count", "CPU", "counts the page views of each site"),
        _application("data-clean", "web-log", "source, parse, filter", "CPU", "keeps the accesses with status 200"),
        _application(
            "vht", "features", "source, model, statistics, evaluation", "CPU and network",
            "learns a decision tree, its statistics divided by attribute",
        ),
        _application(
            "taxi-attractions", "taxi-ride", "source, nearest", "CPU", "adds the nearest attraction to each taxi ride"
        ),
    )
}  # fmt: skip
"""The applications by name."""


def application(name: str) -> Application:
    """Return the application called `name`; `word_count` is `word-count`.

    Raises
    ------
    ConfigurationError
        There is none; names the closest and all.

    Examples
    --------
    >>> application("word-count").app
    'penstock.apps.word_count:word_count'
    """
    known = name.strip().lower().replace("_", "-")
    if known in APPLICATIONS:
        return APPLICATIONS[known]
    close = get_close_matches(known, APPLICATIONS, 1)
    hint = f"; did you mean {close[0]}?" if close else ";"
    raise ConfigurationError(
        f"application: there is no {name!r}{hint} known: {', '.join(APPLICATIONS)}", field="application"
    )
