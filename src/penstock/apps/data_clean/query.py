# SPDX-License-Identifier: Apache-2.0
"""The query: keep the visits whose answer has one status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options, whole_number
from penstock.apps.web_logs import visits_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTIONS = ApplicationOptions("data_clean", status=whole_number(200, least=100, most=599))
check_options = _OPTIONS.check


def data_clean(stream: DataFrame, options: Options) -> DataFrame:
    """Return (index, arrival, time, visitor, site, path) of the visits with a status. Other lines are dropped.

    Parameters
    ----------
    stream
        Rows with at least `index`, `arrival` and `value`.
    options
        ``status``: the status to keep (default 200).
    """
    from pyspark.sql import functions as sf

    status = _OPTIONS.read(options)["status"]
    return visits_of(stream).where(sf.col("status") == str(status)).drop("status")
