# SPDX-License-Identifier: Apache-2.0
"""Gesscale: scaling by throughput over executors and network delay, with a choice of nodes.

`policy` is the published auto-scaler (Arkian et al., "Model-based Stream Processing Auto-scaling in Geo-Distributed
Environments", ICCCN 2021), `plus` goes on where it stops: arrivals are known, so sizes are planned in one step.
docs/how-to/scale-over-nodes.md explains both to users.
"""
