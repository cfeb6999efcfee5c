# SPDX-License-Identifier: Apache-2.0
"""Vertical Hoeffding Tree: a decision tree that is learnt from a stream, its statistics divided by attribute.

::

    instances -> sort to leaves -> slices of attributes -> statistics of each group of attributes -> splits
                      ^                                                                                |
                      +-------------------------- tree, after each batch ------------------------------+

The tree is that of Domingos and Hulten (KDD 2000), divided vertically as by Kourtellis et al. (IEEE Big Data 2016): the
statistics of a group of attributes live in one task, and no task holds those of all. A batch is first classified, then
learnt.

The instances are lines, as the replay source's payload ``features`` generates them. After each batch, the folder
``output`` has the new version: the tree (`read_model`) and the statistics (`read_statistics`). A batch that is run
again after a crash starts from the version before it and gives the same one.
"""

from penstock.apps.vht.model import VhtModel, read_model, read_statistics
from penstock.apps.vht.query import check_options, vht

__all__ = ["VhtModel", "check_options", "read_model", "read_statistics", "vht"]
