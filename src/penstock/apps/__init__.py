# SPDX-License-Identifier: Apache-2.0
"""Streaming applications in PySpark to run, measure and scale. An operator's name is ``module:function``."""
