# SPDX-License-Identifier: Apache-2.0
"""Asks the service of a run, whose address and token its folder holds."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.adaptors.agent.master_address import CA_VARIABLE
from penstock.cli.failures import Failure, WrongInput
from penstock.service.address_file import ADDRESS_FILE, ServiceAddress, read_address

_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class RunService:
    """The service of one run, or of a master and one of its pipelines."""

    known: ServiceAddress
    wanted: str | None = None
    """The pipeline that is meant; None: there is only one."""
    is_master: bool = False

    def get(self, path: str) -> dict[str, Any]:
        """What stands at a path below the API."""
        return self._ask("GET", path, None)

    def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Steer."""
        return self._ask(method, path, body)

    def pipeline(self) -> str:
        """The name of the pipeline that it runs."""
        answer = self.get("pipelines")
        names = [one["name"] for one in answer["pipelines"]]
        if not names and self.is_master:
            if not answer.get("is_leading") and answer.get("trouble"):
                raise Failure(f"{self.known.address}: this master cannot lead: {answer['trouble']}")
            if not answer.get("is_leading"):
                raise Failure(f"{self.known.address}: this master does not lead; try again in some seconds")
            raise Failure(f"{self.known.address}: no query is attached to this master; attach one, or try again later")
        if not names:
            raise Failure("the operators of the run are not there yet; try again in a while")
        if self.wanted is None and len(names) > 1:
            raise WrongInput(f"there are several pipelines: {', '.join(sorted(names))}; name one as FOLDER/NAME")
        return str(self.wanted or names[0])

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        known = self.known
        request = urllib.request.Request(
            f"{known.address}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {known.operate_token or known.read_token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with _opener().open(request, timeout=_PATIENCE_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as fault:
            raise _failure(fault) from fault
        except OSError as fault:
            why = getattr(fault, "reason", fault)
            if isinstance(why, ssl.SSLCertVerificationError):
                raise Failure(
                    f"{known.address}: its certificate cannot be checked ({why.verify_message}); name the PEM file to "
                    f"check it with by {CA_VARIABLE}"
                ) from fault
            hint = "has the run ended?"
            if self.is_master:
                hint = "has it ended? Another master that shares its store leads after some seconds; try again then"
            raise Failure(f"{known.address}: the service does not answer ({why}); {hint}") from fault


def _opener() -> urllib.request.OpenerDirector:
    file = os.environ.get(CA_VARIABLE)
    try:
        trusted = ssl.create_default_context(cafile=file or None)
    except OSError as fault:
        raise WrongInput(f"{CA_VARIABLE}: {file} cannot be read: {fault}; name a PEM file") from fault
    # A proxy of the user's is for other machines: the token goes to this one alone.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))


def service_of_run(run: Path | None) -> RunService:
    """The service of a run; by default of the newest under runs/. Of a master: FOLDER, or FOLDER/PIPELINE.

    Raises
    ------
    ConfigurationError
        There is no run, or it has no service.
    """
    from penstock.cli.runs import find_run
    from penstock.service.master_stores import LEASES_FILE

    for folder, wanted in () if run is None else ((run, None), (run.parent, run.name)):
        if (folder / LEASES_FILE).is_file():
            return RunService(read_address(folder / ADDRESS_FILE), wanted, is_master=True)
    return RunService(read_address(find_run(run).folder / ADDRESS_FILE))


def pipeline_path(name: str, *parts: str) -> str:
    """The path of a pipeline below the API."""
    return "/".join(["pipelines", quote(name, safe=""), *parts])


def _failure(fault: urllib.error.HTTPError) -> Failure:
    try:
        problem = json.load(fault)
        detail, fix = str(problem["detail"]), str(problem.get("fix") or "")
    except (ValueError, KeyError, TypeError):
        detail, fix = f"the service answered with {fault.code} {fault.reason}", ""
    text = detail if not fix or fix in detail else f"{detail}; {fix}"
    return WrongInput(text) if fault.code in (404, 422) else Failure(text)
