# SPDX-License-Identifier: Apache-2.0
"""P: what policies share: the ladder of allocations, levels and their costs, the search over them, and guards."""
