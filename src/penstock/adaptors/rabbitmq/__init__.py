# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: a private server, connections with errors in words, MEAD's fanout, the tap and the Spark source.

::

    producers ──> exchange (fanout) ──> queue of the pipeline ──> source `penstock_rabbitmq` ──> query
                                   └──> queue of the monitor (length-limited) ──> tap ──> arrival times

`records` says what a message is, `publisher` sends many, `spool` keeps what was received until its batch is done.
"""
