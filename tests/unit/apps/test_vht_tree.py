# SPDX-License-Identifier: Apache-2.0
"""The tree of the Vertical Hoeffding Tree, its versions, and the lines that it reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.apps.vht.instances import read_instances
from penstock.apps.vht.model import VhtModel, read_model, version_folder, write_model
from penstock.apps.vht.tree import Split, Tree
from penstock.arrivals.feature_lines import FeatureLines
from penstock.errors import ConfigurationError

VALUES = np.array([[10, 0], [11, 0], [11, 90]], dtype=np.uint8)


def grown() -> Tree:
    """A tree of three leaves: attribute 0 up to 10, else attribute 1 up to 50."""
    tree = Tree.seedling(2).grow({0: Split(0, 10.0, 1.0, (3.0, 1.0), (2.0, 2.0))})
    return tree.grow({2: Split(1, 50.0, 0.5, (0.0, 5.0), (4.0, 0.0))})


def test_instances_are_sorted_by_the_tests_on_their_way() -> None:
    """At most the threshold is left; the class of a leaf is the heaviest."""
    tree = grown()
    assert tree.leaves == (1, 3, 4)
    assert tree.sort(VALUES).tolist() == [1, 3, 4]
    assert tree.predict(VALUES).tolist() == [0, 1, 0]
    assert Tree.seedling(2).sort(VALUES).tolist() == [0, 0, 0]


def test_what_leaves_see_changes_what_they_predict() -> None:
    """Instances of another class outweigh what the leaf was born with; the old tree stays as it was."""
    tree = grown()
    assert tree.learn({1: (0.0, 3.0)}).predict(VALUES).tolist() == [1, 1, 0]
    assert tree.predict(VALUES).tolist() == [0, 1, 0]


def test_versions_are_written_whole_and_the_newest_two_are_kept(tmp_path: Path) -> None:
    """A batch that is run again finds the version before its own; older ones, and half-written ones, do not count."""
    assert read_model(tmp_path) is None
    model = VhtModel(0, grown(), seen=10, correct=4, batch_seen=10, batch_correct=4)
    for batch_id in range(4):
        write_model(tmp_path, replace(model, batch_id=batch_id))
    (version_folder(tmp_path, 4) / "statistics").mkdir(parents=True)
    assert sorted(path.name for path in version_folder(tmp_path, 0).parent.iterdir()) == [
        "00000002",
        "00000003",
        "00000004",
    ]
    newest, before = read_model(tmp_path), read_model(tmp_path, before=3)
    assert newest is not None
    assert before is not None
    assert (newest.batch_id, before.batch_id) == (3, 2)
    assert newest.tree.to_json() == model.tree.to_json()
    assert newest.tree.predict(VALUES).tolist() == [0, 1, 0]
    assert newest.accuracy == newest.batch_accuracy == 0.4
    assert VhtModel(0, grown()).accuracy is None


def test_another_file_is_refused(tmp_path: Path) -> None:
    """A file that is no model is named."""
    folder = version_folder(tmp_path, 0)
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps({"batch_id": 0}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="does not contain a tree"):
        read_model(tmp_path)


def test_lines_are_read_and_others_left_out() -> None:
    """Generated lines give their instances; null, short, long and wrong ones are left out."""
    generator = FeatureLines(1, attributes=32)
    values, classes = generator.instances(0, 4)
    lines = generator.lines(0, np.zeros(4, dtype=np.int64))
    wrong = [None, "", lines[0][:-1], lines[0] + "1", "x" + lines[0][1:], lines[0][:4] + ":" + lines[0][5:]]
    wrong += [lines[0][:5] + "x" + lines[0][6:], "é" + lines[0][2:]]
    column = pa.array([lines[0], *wrong, *lines[1:]], pa.string())
    for found in (read_instances(column, 32, 10), read_instances(pa.concat_arrays([column, column])[12:], 32, 10)):
        assert np.array_equal(found[0], classes)
        assert np.array_equal(found[1], values)
    assert len(read_instances(pa.array(["9"], pa.string()), 32, 10)[0]) == 0
    assert read_instances(column, 32, int(classes.max()))[0].max() < classes.max()
