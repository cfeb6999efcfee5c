# SPDX-License-Identifier: Apache-2.0
"""A pipeline from a file, run and scaled: `run` joins the cluster, the operators (`member`), what flows between them
(`streams`) and the loop; `checks` finds what is wrong before anything starts; `operator` is an operator's own process.
"""
