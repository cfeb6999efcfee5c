# SPDX-License-Identifier: Apache-2.0
"""The options of the benchmark applications, without Spark."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from penstock.apps.application_options import ApplicationOptions, microseconds, whole_number
from penstock.apps.catalogue import APPLICATIONS
from penstock.errors import ConfigurationError

OPTIONS = ApplicationOptions(
    "sample", writes="x.json", every=microseconds("60s"), groups=whole_number(8, least=1, most=9)
)


def test_given_and_default_values_are_read() -> None:
    """An option that is not given has its default, in the same units."""
    assert OPTIONS.read({"output": "o", "groups": "3"}) == {"output": "o", "every": 60_000_000, "groups": 3}
    assert OPTIONS.read({"output": "o", "every": "250ms"})["every"] == 250_000
    assert ApplicationOptions("s", wait=microseconds("0s", may_be_zero=True)).read({}) == {"output": None, "wait": 0}


def test_all_mistakes_are_listed_at_once() -> None:
    """One error names every unknown option, wrong value and missing folder, with its fix."""
    with pytest.raises(ConfigurationError) as caught:
        OPTIONS.read({"colour": "red", "every": "0s", "groups": "10"})
    message = str(caught.value)
    assert "options of sample: 4 mistakes" in message
    for part in ("colour: unknown option; known: every, groups, output", "output: is missing", "every:", "groups:"):
        assert part in message


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_application_checks_its_options(name: str) -> None:
    """Each accepts what a run gives it, and refuses an unknown option and another function's name."""
    module_name, _, function = APPLICATIONS[name].app.partition(":")
    module = importlib.import_module(module_name)
    module.check_options(function, {"output": "output"})
    with pytest.raises(ConfigurationError, match="colour: unknown option"):
        module.check_options(function, {"output": "output", "colour": "red"})
    with pytest.raises(ConfigurationError, match="there is no 'other' here"):
        module.check_options("other", {})


@pytest.mark.parametrize(
    ("app", "option", "value", "message"),
    [
        ("grep", "pattern", "[", "pattern: 'pattern' does not compile|'pattern' does not compile"),
        ("grep", "pattern", "", "pattern: is empty"),
        ("grep", "longest_line", "0", "longest_line: "),
        ("sol", "forwards", "0", "forwards: "),
        ("data_clean", "status", "ok", "status: "),
        ("rolling_count", "every", "soon", "every: "),
        ("rolling_count", "lateness", "-1s", "lateness: "),
        ("rolling_sort", "buffer", "0", "buffer: "),
        ("vht", "delta", "2", "delta: "),
        ("vht", "classes", "11", "classes: "),
    ],
)
def test_wrong_values_are_refused(app: str, option: str, value: str, message: str) -> None:
    """A value that an application cannot use is refused by name, before anything starts."""
    module = importlib.import_module(f"penstock.apps.{app}")
    with pytest.raises(ConfigurationError, match=message):
        module.check_options(app, {"output": "output", option: value})


def test_applications_load_no_spark_before_they_run() -> None:
    """The catalogue and all applications are imported, and their options checked, without PySpark."""
    code = (
        "import importlib, sys; from penstock.apps.catalogue import APPLICATIONS\n"
        "for a in APPLICATIONS.values(): importlib.import_module(a.app.split(':')[0])\n"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
