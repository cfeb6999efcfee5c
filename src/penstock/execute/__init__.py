# SPDX-License-Identifier: Apache-2.0
"""Execute: from a decision to what is true on the cluster.

`reconcile` keeps planned, requested and observed apart and closes the gaps; `transitions` lists how an action may
end.
"""

from penstock.execute.reconcile import Reconciler

__all__ = ["Reconciler"]
