# SPDX-License-Identifier: Apache-2.0
"""Kafka: a broker of Penstock's own or the user's, its topics, and when their records arrived."""
