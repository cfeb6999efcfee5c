# SPDX-License-Identifier: Apache-2.0
"""Penstock keeps streaming pipelines on Apache Spark inside their objective with the least resources.

The data's way: arrivals -> monitor -> plan -> execute, with knowledge beside it; `loop.cycle` is that sentence.
"""
