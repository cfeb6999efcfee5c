# SPDX-License-Identifier: Apache-2.0
"""Rules that scale operators, written in Python, as text or as YAML; building one runs nothing."""
