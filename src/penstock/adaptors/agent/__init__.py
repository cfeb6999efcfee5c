# SPDX-License-Identifier: Apache-2.0
"""How a controller measures and changes an operator that runs in another process.

::

    controller process                           operator process
    client.RemoteOperator ──> private socket ──> server.OperatorAgent ──> metric source and actuator
    penstock serve        <── TCP, TLS ───────── link.MasterLink ──┘

`wire` defines the messages, which are the same both ways, and `channel` sends them. A controller on the same host comes
to the agent's `private_socket`, which only this user can open. To masters the agent connects by itself (`link`), and
both prove that they know a token (`handshake`). `outbox` keeps batches until the controller confirms them; `meters` are
the metrics that can be subscribed to, and `reporter` sends them. The agent of a host (`host_agent`, `meter_agent`) has
no operator: it reports, and holds executors there for a master. Nothing here depends on Spark: the operator's process
brings its own metric source and actuator.
"""
