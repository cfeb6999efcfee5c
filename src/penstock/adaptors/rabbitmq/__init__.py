# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: connections with clear errors, MEAD's fanout, the publisher, the tap and the Spark source.

::

    producers ──> exchange (fanout) ──> queue of the pipeline ──> source `penstock_rabbitmq` ──> query
                                   └──> queue of the monitor (length-limited) ──> tap ──> arrival times

`message` defines a message, `publisher` sends many, and `spool` keeps received messages until their batch is done.
"""
