# SPDX-License-Identifier: Apache-2.0
"""The HTTP API against its own description: requests made from OpenAPI, right and wrong ones, in process."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.unit.service.test_http_api import World

from penstock.service.gate import Rate

EXAMPLES = 15
_ENDLESS = "/api/v1/events"
_JUDGED = ("POST /api/v1/pipelines/{name}/size", "PUT /api/v1/pipelines/{name}/policy")


def _world() -> World:
    made = World(guesses=Rate(per_second=1e9, at_once=1e9))
    made.loop.clock.advance(0.0)
    made.loop.run(1010.0)
    return made


WORLD = _world()
SCHEMA = schemathesis.openapi.from_dict(WORLD.app.openapi())
SCHEMA.app = WORLD.app
SCHEMA.config.generation.update(with_security_parameters=False)  # every request has its token
OPERATIONS = {
    operation.label: operation
    for operation in (found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok))
    if operation.path != _ENDLESS
}


TRIED = [
    pytest.param(label, mode, id=f"{label}-{'right' if mode is GenerationMode.POSITIVE else 'wrong'}")
    for label, operation in OPERATIONS.items()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    # Where there is neither a body nor a query, there is nothing to get wrong.
    if mode is GenerationMode.POSITIVE or operation.body or list(operation.query)
]


@pytest.mark.parametrize(("label", "mode"), TRIED)
def test_answers_are_as_described(label: str, mode: GenerationMode) -> None:
    """No server error; status, type and form of every answer are documented; wrong requests and tokens are refused."""
    operation = OPERATIONS[label]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    def ask(case: Any, is_known: bool) -> None:
        if is_known and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "toys"
        # What a size or a policy may be depends on the pipeline: no description of the API can say it.
        beyond = [positive_data_acceptance] if label.startswith(_JUDGED) else []
        answer = case.call(headers={"Authorization": "Bearer steer"})
        if answer.status_code == 413:
            beyond.append(negative_data_rejection)  # refused as well, and not in its list
        case.validate_response(answer, excluded_checks=beyond)
        if answer.status_code >= 400:
            problem = answer.json()
            assert answer.headers["content-type"][0] == "application/problem+json"
            assert problem["status"] == answer.status_code
            assert problem["detail"]
            assert problem["fix"], "every problem says what to do"
            json.dumps(problem, allow_nan=False)

    ask()


def test_the_description_has_tokens_problems_and_texts() -> None:
    """What FastAPI does not see by itself; health needs no token, and nothing promises FastAPI's own errors."""
    document = WORLD.app.openapi()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            is_open = path in ("/healthz", "/readyz")
            assert ("security" in operation) is not is_open, path
            assert ("409" in operation["responses"]) is (method in ("post", "put")), path
    assert list(document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    assert "HTTPValidationError" not in json.dumps(document)
