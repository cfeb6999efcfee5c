# SPDX-License-Identifier: Apache-2.0
"""The Vertical Hoeffding Tree against River's Hoeffding tree, an independent implementation, on the same stream."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.apps.vht.check import accuracy, learn_alone
from penstock.apps.vht.learning import Settings
from penstock.arrivals.feature_lines import FeatureLines

pytestmark = pytest.mark.reference

LEARNT, HELD_OUT, BATCH = 8000, 2000, 250


def test_it_is_as_accurate_as_rivers_tree() -> None:
    """After 8,000 instances of 200 attributes, accuracy on 2,000 others is within three points of River's."""
    from river.tree import HoeffdingTreeClassifier

    generator = FeatureLines(1)
    values, labels = generator.instances(0, LEARNT + HELD_OUT)
    classes = labels.astype(np.int64)
    edges = range(0, LEARNT, BATCH)
    tree, _, _ = learn_alone([(classes[at : at + BATCH], values[at : at + BATCH]) for at in edges], Settings())
    ours = accuracy(tree, classes[LEARNT:], values[LEARNT:])

    river = HoeffdingTreeClassifier(grace_period=200, delta=1e-7, tau=0.05, leaf_prediction="mc")
    rows = [dict(enumerate(row)) for row in values.tolist()]
    for row, label in zip(rows[:LEARNT], classes[:LEARNT].tolist(), strict=True):
        river.learn_one(row, label)
    predicted = [river.predict_one(row) for row in rows[LEARNT:]]
    theirs = float(np.mean(np.array(predicted) == classes[LEARNT:]))
    assert theirs > 0.6, "there is something to learn"
    assert ours == pytest.approx(theirs, abs=0.03)
