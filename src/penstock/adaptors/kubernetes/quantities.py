# SPDX-License-Identifier: Apache-2.0
"""Amounts of CPU and memory as Kubernetes and Spark write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from penstock.errors import ConfigurationError

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ : a suffix or an exponent. The API
# keeps an exponent as it was written, so one pod of somebody's is enough to meet it.
_QUANTITY = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(?P<suffix>[A-Za-z]{0,2})|[eE](?P<exponent>[+-]?[0-9]{1,2}))"
)
_CPU_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_MEMORY_FACTORS = {
    "m": 1e-3, "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
_SMALLEST_CORES = 0.001
"""Kubernetes takes no finer amounts of CPU, and none of zero is a limit."""
_MIB = 2**20


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
    return _number(text, _CPU_FACTORS, "cpu", "amount of CPU; give cores, such as 2 or 500m")


def bytes_of(text: str) -> int:
    """Return an amount of memory in bytes.

    Raises
    ------
    ConfigurationError
        It is no amount of memory.

    Examples
    --------
    >>> bytes_of("896Mi"), bytes_of("1G"), bytes_of("12e6"), bytes_of("500")
    (939524096, 1000000000, 12000000, 500)
    """
    return int(_number(text, _MEMORY_FACTORS, "memory", "amount of memory, such as 896Mi"))


def as_cpu(cores: float) -> str:
    """Return an amount of CPU as Kubernetes keeps it: in thousandths of a core, rounded up, and at least one.

    Examples
    --------
    >>> as_cpu(0.5), as_cpu(2.0), as_cpu(0.33333)
    ('500m', '2', '334m')
    """
    thousandths = max(1, math.ceil(round(cores / _SMALLEST_CORES, 6)))
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def as_memory(size: int) -> str:
    """Return an amount of memory as Spark writes it: in Mi, rounded up.

    Examples
    --------
    >>> as_memory(939524096), as_memory(1)
    ('896Mi', '1Mi')
    """
    return f"{-(-size // _MIB)}Mi"


def _number(text: str, factors: Mapping[str, float], field: str, wanted: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (found["exponent"] is None and found["suffix"] not in factors):
        raise ConfigurationError(f"{field}: {text!r} is no {wanted}", field=field)
    if found["exponent"] is not None:
        return float(f"{found['number']}e{found['exponent']}")
    return float(found["number"]) * factors[found["suffix"]]
