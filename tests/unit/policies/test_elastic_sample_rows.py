# SPDX-License-Identifier: Apache-2.0
"""Rows of a file of samples that are not what its first line says."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.elastic.sample_file import read_samples


def test_a_row_with_more_values_than_columns_is_refused(tmp_path: Path) -> None:
    """A mark of thousands would make another number of it: 1 in place of 1200."""
    path = tmp_path / "samples.csv"
    path.write_text("executors,throughput\n1,700\n2,1,200\n")
    with pytest.raises(ConfigurationError, match=r"line 3: .*thousands without a mark"):
        read_samples(path)
