# SPDX-License-Identifier: Apache-2.0
"""Generated log lines: their form, their mix, and that a record always has the same one."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from penstock.arrivals.log_lines import LogLines
from penstock.arrivals.log_templates import COMPONENTS
from penstock.errors import ConfigurationError

FORM = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}) (DEBUG|INFO|WARN|ERROR) ([\w.]+): (\S.*)")
# Six hours around midnight, 2.16 s apart.
ARRIVAL_US = 1_790_000_000_123_456 + np.arange(10_000, dtype=np.int64) * 2_160_000


def test_lines_have_the_agreed_form() -> None:
    """Every line is stamp, level, component and message, the stamp being the arrival in UTC to the millisecond."""
    for line, us in zip(LogLines(malformed=0.0).lines(0, ARRIVAL_US), ARRIVAL_US.tolist(), strict=True):
        match = FORM.fullmatch(line)
        assert match is not None, line
        at = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
        assert match[1] == at.isoformat(timespec="milliseconds").removesuffix("+00:00")
        assert match[3] in COMPONENTS
        assert "{" not in match[4]


def test_a_hundredth_is_malformed() -> None:
    """About one line in a hundred lacks the form, with and without a stamp."""
    wrong = [line for line in LogLines().lines(0, ARRIVAL_US) if not FORM.fullmatch(line)]
    # Binomial: 100 expected, standard deviation 10.
    assert 60 < len(wrong) < 140
    assert any(line.startswith("2026-") for line in wrong)
    assert any(not line.startswith("2026-") for line in wrong)
    assert all(not FORM.fullmatch(line) for line in LogLines(malformed=1.0).lines(0, ARRIVAL_US[:500]))


def test_components_and_messages_vary() -> None:
    """All components occur, the first far more often than the last, and messages seldom repeat."""
    matches = [FORM.fullmatch(line) for line in LogLines(malformed=0.0).lines(0, ARRIVAL_US)]
    components = Counter(match[3] for match in matches if match)
    assert set(components) == set(COMPONENTS)
    ranked = list(COMPONENTS)
    assert components[ranked[0]] > 8 * components[ranked[-1]]
    assert len({match[4] for match in matches if match}) > 4000
    levels = Counter(match[2] for match in matches if match)
    assert levels["INFO"] > levels["WARN"] > levels["ERROR"] > 0


def test_a_record_always_has_its_line() -> None:
    """A line depends on the record's number, its arrival and the seed, not on the range it was asked in."""
    whole = LogLines(seed=4).lines(0, ARRIVAL_US)
    assert LogLines(seed=4).lines(700, ARRIVAL_US[700:900]) == whole[700:900]
    assert LogLines(seed=5).lines(0, ARRIVAL_US[:50]) != whole[:50]
    assert LogLines().lines(0, ARRIVAL_US[:0]) == []


def test_the_fraction_is_checked() -> None:
    """A malformed fraction outside 0 to 1 is refused by name."""
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ConfigurationError, match="malformed"):
            LogLines(malformed=wrong)
