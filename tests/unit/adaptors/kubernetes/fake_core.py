# SPDX-License-Identifier: Apache-2.0
"""The API of Kubernetes without a cluster."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any


class FakeCore:
    """Answers with what it is given, or fails with it."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.api_client = SimpleNamespace(sanitize_for_serialization=lambda value: value)

    def _reply(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append((arguments, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    list_namespaced_pod = patch_namespaced_pod_resize = list_node = list_pod_for_all_namespaces = _reply
    create_namespaced_pod = list_namespaced_resource_quota = _reply


def failure(status: int, message: str = "", **details: str) -> Exception:
    """An answer of the API that is no success."""
    from kubernetes.client.exceptions import ApiException

    answer = ApiException(status=status, reason="")
    answer.body = json.dumps({"message": message, "details": details})
    fault: Exception = answer
    return fault
