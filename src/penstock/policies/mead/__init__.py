# SPDX-License-Identifier: Apache-2.0
"""MEAD: burst-aware scaling with Markovian arrival processes, as published and as Penstock extends it.

References
----------
Russo Russo, Cardellini, Casale, Lo Presti, "MEAD: Model-Based Vertical Auto-Scaling for Data Stream Processing", 2021.
"""
