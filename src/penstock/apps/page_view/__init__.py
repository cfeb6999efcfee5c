# SPDX-License-Identifier: Apache-2.0
"""Page view: how many pages of each site were viewed, from web access logs."""

from penstock.apps.page_view.query import check_options, page_view

__all__ = ["check_options", "page_view"]
