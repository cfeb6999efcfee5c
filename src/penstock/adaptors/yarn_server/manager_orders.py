# SPDX-License-Identifier: Apache-2.0
"""Orders to the ResourceManager of a YARN on this machine, by its REST interface.

https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from penstock.errors import ClusterError

_TIMEOUT_SECONDS = 30.0


def order(page: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send an order to a path below ``/ws/v1/cluster``, and return the answer.

    Parameters
    ----------
    page
        The ResourceManager's web address.
    body
        A text of XML, or what is sent as JSON.

    Raises
    ------
    ClusterError
        It is refused, or nobody answers.
    """
    is_xml = isinstance(body, str)
    request = urllib.request.Request(
        f"{page}/ws/v1/cluster{path}",
        data=body.encode() if is_xml else json.dumps(body).encode(),
        headers={"Content-Type": f"application/{'xml' if is_xml else 'json'}", "Accept": "application/json"},
        method=method,
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as reply:
            text = reply.read()
    except urllib.error.HTTPError as fault:
        with fault:
            said = fault.read().decode(errors="replace")
        raise ClusterError(f"YARN refuses {method} {path} ({fault.code}): {said}", target="yarn") from fault
    except OSError as fault:
        raise ClusterError(f"YARN does not answer to {method} {path}: {fault}", target="yarn") from fault
    return json.loads(text) if text.startswith(b"{") else {}


def label_nodes(page: str, labels: Mapping[str, str]) -> None:
    """Give nodes, by their hosts, a label each. They need not be registered yet.

    A node with a label takes only containers that ask for it.
    """
    names = "".join(
        f"<nodeLabelInfo><name>{escape(label)}</name><exclusivity>true</exclusivity></nodeLabelInfo>"
        for label in sorted(set(labels.values()))
    )
    order(page, "POST", "/add-node-labels", f"<nodeLabelsInfo>{names}</nodeLabelsInfo>")
    for node, label in labels.items():
        order(page, "POST", f"/nodes/{node}:0/replace-labels?labels={label}", {})
