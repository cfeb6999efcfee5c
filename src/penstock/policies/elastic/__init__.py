# SPDX-License-Identifier: Apache-2.0
"""The elastic policy: sizes an operator by the throughput that each allocation is predicted to sustain.

`load` says what arrives and waits, `samples` what the running query shows of its own throughput, `capacity` what an
allocation sustains, `change_cost` what a change costs, and `choice` which allocation is the cheapest that keeps up.
`policy` joins them.
"""
