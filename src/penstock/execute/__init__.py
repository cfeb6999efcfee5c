# SPDX-License-Identifier: Apache-2.0
"""Execute: from a decision to what is true on the cluster.

`reconcile` keeps planned, requested and observed apart and closes the gaps; `pause` measures what a restart costs.
"""

from penstock.execute.reconcile import Reconciler

__all__ = ["Reconciler"]
