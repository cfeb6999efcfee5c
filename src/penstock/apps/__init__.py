# SPDX-License-Identifier: Apache-2.0
"""Streaming applications in PySpark to run, measure and scale; each operator is named ``module:function``."""
