# SPDX-License-Identifier: Apache-2.0
"""Finds and removes the groups that dead runs left. Groups of live owners are never touched."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from penstock.adaptors.cgroups.guard import FOLDER, GroupFolders
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.adaptors.cgroups.owner import Owner

_log = logging.getLogger(__name__)


def sweep_stale(hierarchy: Hierarchy) -> tuple[str, ...]:
    """Uncap and remove every group whose owner is dead. Return the removed folders.

    The whole of each hierarchy is searched, because the dead run may have lived in another cgroup than this one.
    The processes of a stale group go to the parent cgroup or, if that cannot hold any, to the caller's own.
    """
    removed = []
    for mount, home in zip(hierarchy.mounts, hierarchy.homes, strict=True):
        for folder in _stale_folders(mount.point, hierarchy.proc):
            above = str(Path(folder).parents[1])
            try:
                holders = sorted(hierarchy.holders(above, home), key=lambda holder: holder != above)
                group = GroupFolders(
                    hierarchy.version, [folder], [holders], proc=hierarchy.proc, kernel=hierarchy.kernel
                )
                if mount == hierarchy.mounts[0]:
                    group.open()
                group.give_back()
                is_gone = group.remove()
            except OSError as fault:
                _log.warning("cgroups: the stale group %s could not be removed: %s", folder, fault)
                continue
            if is_gone:
                removed.append(folder)
            else:
                _log.warning("cgroups: the stale group %s still holds processes %s", folder, group.pids_in(folder))
    return tuple(removed)


def _stale_folders(point: str, proc: str) -> list[str]:
    stale = []
    for folder, names, _ in os.walk(point):
        if Path(folder).name != FOLDER:
            continue
        for name in sorted(names):
            owner = Owner.of_name(name)
            if owner is not None and owner.is_dead(proc):
                stale.append(str(Path(folder, name)))
        names.clear()  # nothing of interest lies deeper
    return stale
