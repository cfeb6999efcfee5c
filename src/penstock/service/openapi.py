# SPDX-License-Identifier: Apache-2.0
"""Describes in OpenAPI what FastAPI does not see: tokens, problems, and answers that are not JSON."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from penstock.service.problems import MEDIA_TYPE

_SCHEME = "token"
_OPEN = ("/healthz", "/readyz")
"""What needs no token."""
_TEXTS = {"/metrics": "text/plain", "/api/v1/events": "text/event-stream"}
_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "What is wrong and what to do about it (RFC 9457).",
    "required": ["type", "title", "status", "detail", "fix", "errors", "instance"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what is wrong"},
        "fix": {"type": "string", "description": "what to do about it"},
        "errors": {"type": "array", "items": {"type": "string"}, "description": "single mistakes, each with its field"},
        "instance": {"type": "string", "description": "the path that was asked for"},
    },
}
_MEANINGS = {
    401: "there is no token, or it is wrong",
    403: "the token may only look, or a page of another origin asks",
    404: "there is no such pipeline or operator, or no master",
    409: "the pipeline takes no such order now",
    413: "the body is too large",
    415: "the body is not JSON",
    421: "the service has another name",
    422: "what was sent is wrong",
    429: "too many requests",
    503: "the service, or the run's store, cannot answer now",
}


def describe(app: FastAPI) -> None:
    """Let an application's OpenAPI have all that it answers."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):  # ours are problems
        schemas.pop(unused, None)
    schemas["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        _SCHEME: {"type": "http", "scheme": "bearer", "description": "a token of the role read or operate"}
    }
    for path, methods in schema.get("paths", {}).items():
        for operation in methods.values():
            _complete(path, operation)
    return schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    statuses = {421, 429, 503}
    if path not in _OPEN:
        statuses |= {401, 403, 404, 422}
        operation["security"] = [{_SCHEME: []}]
    if "requestBody" in operation:
        statuses |= {409, 413, 415}
    for status in sorted(statuses):
        operation["responses"][str(status)] = {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    if path in _TEXTS:
        operation["responses"]["200"]["content"] = {_TEXTS[path]: {"schema": {"type": "string"}}}
