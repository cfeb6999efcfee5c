# SPDX-License-Identifier: Apache-2.0
"""Asks YARN's ResourceManager by its REST interface, and says in a sentence what went wrong.

https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import MetricSourceError

GUIDE = "docs/how-to/run-on-yarn.md"
_LARGEST_REPLY_BYTES = 64 << 20
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_TARGET = "yarn"


class NotKnownError(MetricSourceError):
    """The ResourceManager answers, and has no such thing: an application that is gone, or a call of a later version."""


class ResourceManager:
    """The REST interface of a ResourceManager, or of several of which one is active.

    Parameters
    ----------
    addresses
        Their web addresses, such as ``http://manager:8088``. The one that answered last is asked first.
    timeout_seconds
        How long one of them may take.
    """

    def __init__(self, addresses: Sequence[str], *, timeout_seconds: float = 5.0) -> None:
        self._addresses = [address.rstrip("/") for address in addresses]
        self._timeout_seconds = timeout_seconds
        # Ask it directly: an http_proxy in the environment is not meant for it.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a path below ``/ws/v1/cluster``.

        Raises
        ------
        MetricSourceError
            None of them answers, or one answers with something else than success.
        """
        faults = []
        for address in list(self._addresses):
            url = f"{address}/ws/v1/cluster{path}"
            try:
                request = urllib.request.Request(url, headers={"Accept": "application/json"})
                with self._opener.open(request, timeout=self._timeout_seconds) as reply:
                    answer = json.loads(reply.read(_LARGEST_REPLY_BYTES))
            except urllib.error.HTTPError as fault:
                with fault:
                    raise _refused(url, fault.code) from fault
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as fault:
                faults.append(f"{url}: {fault}")
                continue
            if not isinstance(answer, dict):
                faults.append(f"{url}: its answer is no object")
                continue
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            return answer
        raise MetricSourceError(
            f"YARN's ResourceManager does not answer: {'; '.join(faults) or 'no address of one is known'}",
            target=_TARGET,
            retryable=True,
        )


def manager_addresses(get: Callable[[str], str | None]) -> list[str]:
    """Return the web addresses of the ResourceManagers, from YARN's configuration.

    Parameters
    ----------
    get
        Returns a property of the configuration, with YARN's own defaults; None: it has no value.

    Examples
    --------
    >>> manager_addresses({"yarn.resourcemanager.webapp.address": "rm:8088"}.get)
    ['http://rm:8088']
    """
    is_secure = get("yarn.http.policy") == "HTTPS_ONLY"
    scheme, port = ("https", 8090) if is_secure else ("http", 8088)
    name = "yarn.resourcemanager.webapp.https.address" if is_secure else "yarn.resourcemanager.webapp.address"
    ids: Sequence[str | None] = [None]
    if get("yarn.resourcemanager.ha.enabled") == "true":
        ids = [one.strip() for one in (get("yarn.resourcemanager.ha.rm-ids") or "").split(",") if one.strip()]
    found = []
    for one in ids:
        end = "" if one is None else f".{one}"
        host = get(f"yarn.resourcemanager.hostname{end}")
        address = get(f"{name}{end}") or (None if host is None else f"{host}:{port}")
        if address is not None:
            found.append(f"{scheme}://{address}")
    return found


def _refused(url: str, status: int) -> MetricSourceError:
    why = {
        _UNAUTHORIZED: f"it wants a login, and Penstock has none for it ({GUIDE})",
        _FORBIDDEN: f"this user may not see it ({GUIDE})",
        _NOT_FOUND: "it knows nothing of that",
    }.get(status, "it has failed")
    kind = NotKnownError if status == _NOT_FOUND else MetricSourceError
    return kind(
        f"YARN's ResourceManager does not say what it can give: {url} answered with status {status}: {why}",
        target=_TARGET,
        retryable=status not in {_UNAUTHORIZED, _FORBIDDEN},
    )
