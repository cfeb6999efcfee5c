# SPDX-License-Identifier: Apache-2.0
"""How a run went: its history out of a knowledge store, as figures, pictures and a page."""

from penstock.evaluation.history import RunHistory
from penstock.evaluation.report import Report, write_report
from penstock.evaluation.run_reading import read_history

__all__ = ["Report", "RunHistory", "read_history", "write_report"]
