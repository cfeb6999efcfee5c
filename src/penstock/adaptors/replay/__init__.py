# SPDX-License-Identifier: Apache-2.0
"""A replayed load: its options, its arrival times and the text of its records.

The Spark source `penstock_replay` and the producers of Kafka and RabbitMQ share it.
"""
