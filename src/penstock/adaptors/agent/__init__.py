# SPDX-License-Identifier: Apache-2.0
"""How a controller measures and changes an operator that runs in another process.

::

    controller process                           operator process
    client.RemoteOperator ──> private socket ──> server.OperatorAgent ──> metric source and actuator

`wire` defines the messages, `private_socket` the socket that only this user can open, and `outbox` keeps measurements
until the controller confirms them. Nothing here depends on Spark: the operator's process brings its own metric source
and actuator.
"""
