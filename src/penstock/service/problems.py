# SPDX-License-Identifier: Apache-2.0
"""What went wrong, as RFC 9457 (problem details) writes it, with what to do about it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from penstock.errors import AdaptorError, ConfigurationError, PenstockError, SteeringError

_LOG = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_MOST_ERRORS = 20
_SEE_THE_LOG = "the run's log says more"


class ProblemError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    status
        Of HTTP.
    detail, fix
        What is wrong, and what to do.
    errors
        Single mistakes.
    headers
        Of the answer, such as ``Retry-After``.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        fix: str = "",
        *,
        errors: Sequence[str] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.fix = status, detail, fix
        self.errors, self.headers = tuple(errors), headers or {}

    def plain(self, instance: str) -> dict[str, Any]:
        """The document."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "fix": self.fix,
            "errors": list(self.errors)[:_MOST_ERRORS],
            "instance": instance,
        }

    def body(self, instance: str) -> bytes:
        """The document as it is sent."""
        return json.dumps(self.plain(instance), ensure_ascii=False).encode()

    def response(self, instance: str) -> Response:
        """The answer."""
        return Response(self.body(instance), self.status, headers=self.headers, media_type=MEDIA_TYPE)


def problem_of(fault: Exception) -> ProblemError:
    """The problem that an error is."""
    if isinstance(fault, ProblemError):
        return fault
    if isinstance(fault, PenstockError):
        return _of_ours(fault)
    if isinstance(fault, RequestValidationError):
        errors = [_field_error(error) for error in fault.errors()]
        is_json = all(error.get("type") != "json_invalid" for error in fault.errors())
        detail = "; ".join(errors) if is_json else "the body is not JSON"
        fix = "correct these fields; /openapi.json lists them" if is_json else "send a JSON object"
        return ProblemError(422, detail, fix, errors=errors)
    if isinstance(fault, HTTPException) and fault.status_code == 400:  # such as bytes that are no text
        return ProblemError(422, "the body is not JSON", "send a JSON object, in UTF-8")
    if isinstance(fault, HTTPException):
        fixes = {404: "see /openapi.json for what there is", 405: "see /openapi.json for the methods of this path"}
        return ProblemError(
            fault.status_code, str(fault.detail), fixes.get(fault.status_code, ""), headers=dict(fault.headers or {})
        )
    return ProblemError(500, "this is a defect of Penstock; the pipeline does not notice it", _SEE_THE_LOG)


def _of_ours(fault: PenstockError) -> ProblemError:
    if isinstance(fault, ConfigurationError):
        return ProblemError(422, str(fault), _fix(fault.faults[0]), errors=fault.faults)
    if isinstance(fault, SteeringError):
        return ProblemError(409, str(fault), _fix(str(fault)))
    if isinstance(fault, AdaptorError):
        detail = f"the run's store failed, so nothing was changed: {fault}"
        return ProblemError(503, detail, f"try again later; {_SEE_THE_LOG}")
    return ProblemError(500, str(fault), _SEE_THE_LOG)


def _fix(text: str) -> str:
    """What a message says to do: by custom, what follows the semicolon."""
    return text.partition("; ")[2] or text


def _field_error(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path")) or "body"
    return f"{where}: {str(error['msg']).removeprefix('Value error, ')}"


def answer_with_problems(app: FastAPI) -> None:
    """Let every failure of an application be a problem document."""

    async def answer(request: Request, fault: Exception) -> Response:
        problem = problem_of(fault)
        if problem.status == 500:
            _LOG.error("%s %s failed", request.method, request.url.path, exc_info=fault)
        return problem.response(request.url.path)

    for kind in (ProblemError, PenstockError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
