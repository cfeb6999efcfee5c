# SPDX-License-Identifier: Apache-2.0
"""Spark's configuration in a private file: on a command line, passwords in it could be read by everybody."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigurationError

PROPERTIES_FILE = "spark.properties"
"""In the operator's folder: what its Spark application is configured with."""
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with further arguments of the driver's command line."""
_SHELL = "pyspark-shell"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_SPECIAL = re.compile(r"[\\\n\r\t\f]")


def properties_text(configuration: Mapping[str, str]) -> str:
    """Return a configuration as the text of a Java properties file.

    Examples
    --------
    >>> properties_text({"spark.x": "a = b", "spark.path": "C:\\\\d"})
    'spark.x=a = b\\nspark.path=C:\\\\\\\\d\\n'
    """
    return "".join(f"{_key(name)}={_escaped(value)}\n" for name, value in configuration.items())


def submit_arguments(properties: Path, given: str | None) -> str:
    """Return the arguments of the command line: those the user has set, and where the configuration is.

    Raises
    ------
    ConfigurationError
        The user's arguments name a file of properties, of which Spark reads one only.
    """
    words = shlex.split(given or _SHELL)
    if "--properties-file" in words:
        raise ConfigurationError(
            f"{SUBMIT_ARGUMENTS}: names a file of properties; write what it holds under `spark` of the operator",
            field=SUBMIT_ARGUMENTS,
        )
    others = words[:-1] if words[-1:] == [_SHELL] else words
    # What spark-defaults.conf holds counts as before, below what is set here.
    return shlex.join([*others, "--properties-file", str(properties), "--load-spark-defaults", _SHELL])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPES[found.group()], text)


def _key(name: str) -> str:
    return re.sub(r"([=: #!])", r"\\\1", _escaped(name))
