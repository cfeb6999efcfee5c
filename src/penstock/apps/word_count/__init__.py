# SPDX-License-Identifier: Apache-2.0
"""Word count: how often each word occurred in the whole stream. It needs CPU."""

from penstock.apps.word_count.query import check_options, word_count

__all__ = ["check_options", "word_count"]
