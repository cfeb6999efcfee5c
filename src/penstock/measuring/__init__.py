# SPDX-License-Identifier: Apache-2.0
"""How throughput is measured: batches become rates, rates converge, samples are taken, judged, kept and summed up.

It is arithmetic alone. `penstock.running` runs the applications for `penstock measure`, `penstock.evaluation` those of
the static scaling experiment; both measure with this.
"""
