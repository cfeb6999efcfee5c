# SPDX-License-Identifier: Apache-2.0
"""Pipelines under a virtual clock, with the same ports as Spark: exact recursions over arrays, no queueing model."""
