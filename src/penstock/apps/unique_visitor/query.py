# SPDX-License-Identifier: Apache-2.0
"""The query: drop the visits of whoever was at the site before, count the others of each site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options
from penstock.apps.counts import counts_writer
from penstock.apps.web_logs import visits_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OPTIONS = ApplicationOptions("unique_visitor", writes="counts.json")
check_options = _OPTIONS.check


def unique_visitor(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the different visitors of each site so far, of the kind ``site``. Option ``output``: the result's folder.

    The count is exact, so every pair of site and visitor is kept: the state grows until all visitors are known.
    """
    from pyspark.sql import functions as sf

    output = _OPTIONS.read(options)["output"]
    first_visits = visits_of(stream).select("site", "visitor").dropDuplicates()
    visitors = first_visits.groupBy(sf.lit("site").alias("kind"), sf.col("site").alias("key")).count()
    return counts_writer(visitors, output)
