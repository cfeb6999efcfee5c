# SPDX-License-Identifier: Apache-2.0
"""Open-loop producers: a trace or shape sent to a broker at its own times, whether or not anybody keeps up.

`pacing` says what is sent when, `kafka_sink` and `penstock.adaptors.rabbitmq.publisher` send it, `lateness` tells how
late it went out.
"""
