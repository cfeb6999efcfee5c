# SPDX-License-Identifier: Apache-2.0
"""Generated text, web logs and instances: their form, their mix, and that a record always has the same line."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from penstock.arrivals.feature_lines import ATTRIBUTES, CLASSES, FeatureLines
from penstock.arrivals.generated_lines import GeneratedLines, decode_lines
from penstock.arrivals.text_lines import WORDS, TextLines
from penstock.arrivals.web_log_lines import SITES, STATUS_WEIGHTS, VISITORS, WebLogLines

ARRIVAL_US = 1_790_000_000_123_456 + np.arange(6000, dtype=np.int64) * 2_160_000
VISIT = re.compile(r"(\S{23}) (v\d{7}) ([a-z]+\.example) (/[a-z]+/[a-z]+) (\d{3})")


@pytest.mark.parametrize("kind", [TextLines, WebLogLines, FeatureLines])
def test_a_record_always_has_its_line(kind: type[TextLines | WebLogLines | FeatureLines]) -> None:
    """A line depends on the record's number, its arrival and the seed, not on the range it was asked in."""
    generator: GeneratedLines = kind(4)
    whole = decode_lines(*generator.encode(0, ARRIVAL_US[:900]))
    assert decode_lines(*kind(4).encode(700, ARRIVAL_US[700:900])) == whole[700:900]
    assert kind(4).lines(700, ARRIVAL_US[700:900]) == whole[700:900]
    assert kind(5).lines(0, ARRIVAL_US[:50]) != whole[:50]
    assert kind(4).lines(0, ARRIVAL_US[:0]) == []
    assert len(set(whole)) > 700, "lines seldom repeat"


def test_words_follow_zipf() -> None:
    """Lines are words and single spaces; the second word is about half as frequent as the first, and many are rare."""
    lines = TextLines(1).lines(0, ARRIVAL_US)
    assert all(re.fullmatch(r"[a-z]+( [a-z]+)*", line) for line in lines)
    counts = [count for _, count in Counter(word for line in lines for word in line.split()).most_common()]
    assert 1.7 < counts[0] / counts[1] < 2.3
    assert 4 < counts[0] / counts[4] < 6
    assert 0.8 * WORDS < len(counts) <= WORDS


def test_web_logs_have_the_agreed_form() -> None:
    """A line is stamp, visitor, site, path and status; 100 sites occur, and statuses as often as they should."""
    visits = []
    for line, us in zip(WebLogLines(2).lines(0, ARRIVAL_US), ARRIVAL_US.tolist(), strict=True):
        match = VISIT.fullmatch(line)
        assert match is not None, line
        at = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
        assert match[1] == at.isoformat(timespec="milliseconds").removesuffix("+00:00")
        visits.append(match)
    assert len({visit[3] for visit in visits}) == SITES
    visitors = [int(visit[2].removeprefix("v")) for visit in visits]
    assert 0.9 * VISITORS < len(set(visitors)) <= VISITORS
    often = sum(visitor < VISITORS // 100 for visitor in visitors) / len(visitors)
    assert often == pytest.approx(0.1, abs=0.02), "the first hundredth of the visitors makes a tenth of the visits"
    statuses = Counter(int(visit[5]) for visit in visits)
    assert set(statuses) == set(STATUS_WEIGHTS)
    # Binomial: 80 in 100 of the pool's 8,192 lines, of which each is drawn less than once; 5 deviations of 0.6.
    assert statuses[200] / len(visits) == pytest.approx(0.8, abs=0.03)


def test_instances_are_a_class_and_two_digits_for_each_attribute() -> None:
    """The line of an instance says what `instances` returns; values are spread evenly and all classes occur."""
    generator = FeatureLines(3)
    values, classes = generator.instances(100, 2000)
    lines = generator.lines(100, ARRIVAL_US[:2000])
    assert lines[7] == " ".join([str(classes[7]), *(f"{value:02d}" for value in values[7].tolist())])
    assert values.shape == (2000, ATTRIBUTES)
    assert (values.min(), values.max()) == (0, 99)
    assert not ((values >= 40) & (values < 60)).any()
    assert values.mean() == pytest.approx(49.5, abs=0.5)
    assert set(classes.tolist()) == set(range(CLASSES))


def test_the_concept_is_a_tree_with_noise() -> None:
    """Without noise the same instance always has the same class; with noise about a twentieth of the classes differ."""
    values, clean = FeatureLines(3, noise=0.0).instances(0, 5000)
    same, noisy = FeatureLines(3).instances(0, 5000)
    assert np.array_equal(values, same)
    # A random class is right by chance in one of ten: 4.5 % differ, with a deviation of 0.3 %.
    assert np.mean(clean != noisy) == pytest.approx(0.045, abs=0.015)
