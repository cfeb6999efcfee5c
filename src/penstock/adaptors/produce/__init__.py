# SPDX-License-Identifier: Apache-2.0
"""Open-loop producers: send a trace or shape to a broker at its own times, whether or not anybody keeps up.

`pacing` decides what to send when, `kafka_sink` and `penstock.adaptors.rabbitmq.publisher` send it, and `lateness`
measures how late it went out.
"""
