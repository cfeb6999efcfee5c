# SPDX-License-Identifier: Apache-2.0
"""The file in a run folder that says where the run's service is, and what opens it: for this user alone."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.private_file import write_private
from penstock.errors import ConfigurationError
from penstock.service.access import Access

ADDRESS_FILE = "service.json"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service is.

    Attributes
    ----------
    address
        Such as ``http://127.0.0.1:7070``.
    read_token, operate_token
        What opens it for looking, and for steering; None: it cannot be steered.
    """

    address: str
    read_token: str
    operate_token: str | None = None

    @property
    def link(self) -> str:
        """The address for a browser. What follows ``#`` stays in the browser."""
        return f"{self.address}/#token={self.operate_token or self.read_token}"


def write_address(path: Path, address: str, access: Access) -> ServiceAddress:
    """Write the file, readable for this user alone."""
    known = ServiceAddress(address, access.read_token, access.operate_token)
    plain = {
        "address": known.address,
        "read_token": known.read_token,
        "operate_token": known.operate_token,
        "pid": os.getpid(),
    }
    try:
        write_private(path, json.dumps(plain) + "\n")
    except OSError as fault:
        raise ConfigurationError(f"{path}: cannot be written: {fault.strerror}", field="page") from fault
    return known


def read_address(path: Path) -> ServiceAddress:
    """Read the file.

    Raises
    ------
    ConfigurationError
        There is none, or it says something else.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        operate = plain["operate_token"]
        return ServiceAddress(
            str(plain["address"]), str(plain["read_token"]), None if operate is None else str(operate)
        )
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path.parent}: no service runs for this run; start the run with --page", field="RUN"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        raise ConfigurationError(f"{path}: cannot be read ({fault}); start the run again", field="RUN") from fault
