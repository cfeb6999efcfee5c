# SPDX-License-Identifier: Apache-2.0
"""Scaling rules at work: as a policy of their own, and around any other policy.

References
----------
The dynamic scaling framework, Sec. 4.2 (what a rule is) and 4.3.5 (how it is evaluated). Its Algorithms 4.2 and 4.3 are
not followed to the letter, because as printed they do something else than its text says; see docs/background/rules.md.
"""
