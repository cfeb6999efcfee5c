# SPDX-License-Identifier: Apache-2.0
"""The query: read the site of each visit, count the visits of each site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options
from penstock.apps.counts import counts_writer
from penstock.apps.web_logs import visits_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OPTIONS = ApplicationOptions("page_view", writes="counts.json")
check_options = _OPTIONS.check


def page_view(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the page views of each site so far, of the kind ``site``. Option ``output``: the result's folder."""
    from pyspark.sql import functions as sf

    output = _OPTIONS.read(options)["output"]
    views = visits_of(stream).groupBy(sf.lit("site").alias("kind"), sf.col("site").alias("key")).count()
    return counts_writer(views, output)
