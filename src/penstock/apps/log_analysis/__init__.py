# SPDX-License-Identifier: Apache-2.0
"""Log analysis, the application of the MEAD paper (Sec. II): statistics of log lines and patterns found in them.

::

    lines -> parser -> counter    events of each component
                    -> matcher    lines that each user-given regular expression is found in

`log_analysis` runs it as one query. It also runs as three operators, each its own Spark application: the parser's
stream goes to a folder of Parquet files, which counter and matcher read as a file stream with
``stream_schema("parser")``.

`match_lines` is a stateless matcher: one row for each match, line by line, also in Spark's real-time mode.

The lines come from the replay source, which generates them or reads real ones (its option ``payload=file:PATH``; the
operator's option ``format`` then names the file's format).
"""

from penstock.apps.counts import Counts, read_counts
from penstock.apps.log_analysis.matches import check_match_options, match_lines
from penstock.apps.log_analysis.operators import (
    counter,
    log_analysis,
    matcher,
    parser,
)
from penstock.apps.log_analysis.options import MATCHES_SCHEMA, check_options, stream_schema

__all__ = [
    "MATCHES_SCHEMA",
    "Counts",
    "check_match_options",
    "check_options",
    "counter",
    "log_analysis",
    "match_lines",
    "matcher",
    "parser",
    "read_counts",
    "stream_schema",
]
