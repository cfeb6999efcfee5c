# SPDX-License-Identifier: Apache-2.0
"""Amounts of CPU as Kubernetes and Spark write them."""

from __future__ import annotations

import math
import re

from penstock.errors import ConfigurationError

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ : a suffix or an exponent. The API
# keeps an exponent as it was written, so one pod of somebody's is enough to meet it.
_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_QUANTITY = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(?P<suffix>[numk]?)|[eE](?P<exponent>[+-]?[0-9]{1,2}))"
)
_SMALLEST = 0.001
"""Cores: Kubernetes takes no finer amounts, and none of zero is a limit."""


def cores_of(text: str) -> float:
    """Return an amount of CPU in cores.

    Raises
    ------
    ConfigurationError
        It is no amount of CPU.

    Examples
    --------
    >>> cores_of("500m"), cores_of("2"), cores_of("0.1"), cores_of("100e-3")
    (0.5, 2.0, 0.1, 0.1)
    """
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"cpu: {text!r} is no amount of CPU; give cores, such as 2 or 500m", field="cpu")
    if found["exponent"] is not None:
        return float(f"{found['number']}e{found['exponent']}")
    return float(found["number"]) * _FACTORS[found["suffix"]]


def as_quantity(cores: float) -> str:
    """Return an amount of CPU as Kubernetes keeps it: in thousandths of a core, rounded up, and at least one.

    Examples
    --------
    >>> as_quantity(0.5), as_quantity(2.0), as_quantity(0.33333)
    ('500m', '2', '334m')
    """
    thousandths = max(1, math.ceil(round(cores / _SMALLEST, 6)))
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
