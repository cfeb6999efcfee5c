# SPDX-License-Identifier: Apache-2.0
"""Where in a cgroup v2 tree a group for CPU can be made, so that processes keep the limits of the cgroup they are in.

A cgroup of v2 holds processes, or it hands controllers down to its children; most controllers insist on that. The
controller ``cpu`` does not: it can be handed down to *threaded* children of a cgroup that holds processes. Processes in
these still belong to the cgroup around them in everything but CPU. So a group is made inside the cgroup of its
processes, and limits there, of memory for example, hold on. Where the kernel refuses that (the cgroup has other
children that hold processes) the group goes beside it, under the nearest one above that hands ``cpu`` down or else can.

https://docs.kernel.org/admin-guide/cgroup-v2.html#threads
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.adaptors.cgroups.guard import FOLDER, Kernel


def places_for(origin: str, top: str, kernel: Kernel) -> list[str]:
    """Return the cgroups in which a group for processes of `origin` may be made, the best first.

    `top` is the mount point. What this process may not change is not among them. The kernel may refuse nevertheless.
    """
    origin = without_ours(origin, top)
    found = [origin] if _can_be_inside(origin, top, kernel) else []
    above = [folder for folder in ancestors(origin, top) if may_use(folder, kernel)]
    checks: tuple[Callable[[str], bool], ...] = (
        lambda folder: "cpu" in kernel.read(f"{folder}/cgroup.subtree_control").split(),
        lambda folder: _has_cpu(folder, kernel) and not _holds_processes(folder, kernel),
    )
    for check in checks:
        found += [folder for folder in above if folder not in found and check(folder)]
    return found


def without_ours(folder: str, top: str) -> str:
    """Return the cgroup around Penstock's own groups, if `folder` is one of these: groups do not nest.

    Examples
    --------
    >>> without_ours("/cgroup/job/penstock/run-a-12-345-6", "/cgroup"), without_ours("/cgroup/job", "/cgroup")
    ('/cgroup/job', '/cgroup/job')
    """
    parts = Path(folder).relative_to(top).parts
    return str(Path(top, *parts[: parts.index(FOLDER)])) if FOLDER in parts else folder


def is_threaded_place(folder: str, kernel: Kernel) -> bool:
    """Whether groups in a cgroup are threaded ones: it holds processes, or others have made such groups in it."""
    if is_root(folder):
        return False
    return kernel.read(f"{folder}/cgroup.type").strip() != "domain" or _holds_processes(folder, kernel)


def is_root(folder: str) -> bool:
    """Whether a cgroup is the true root, which may hold processes and hand down. That of a container is not."""
    return not Path(folder, "cgroup.type").exists()


def may_use(folder: str, kernel: Kernel) -> bool:
    """Whether this process may make groups in a cgroup."""
    return kernel.may_write(folder) and kernel.may_write(f"{folder}/cgroup.procs")


def hand_cpu_down(folder: str, top: str, kernel: Kernel) -> None:
    """Enable cpu for the children of a cgroup, and before that for those of the ones above where it ends."""
    if "cpu" in kernel.read(f"{folder}/cgroup.subtree_control").split():
        return
    if folder != top and not _has_cpu(folder, kernel):
        hand_cpu_down(str(Path(folder).parent), top, kernel)
    kernel.write(f"{folder}/cgroup.subtree_control", "+cpu")


def ancestors(folder: str, top: str) -> Iterator[str]:
    """Return the folders above `folder` up to the mount point, nearest first, or the mount point if it is that."""
    if folder == top:
        yield top
        return
    for parent in Path(folder).parents:
        yield str(parent)
        if str(parent) == top:
            return


def _can_be_inside(folder: str, top: str, kernel: Kernel) -> bool:
    return (
        not is_root(folder)
        and is_threaded_place(folder, kernel)
        and may_use(folder, kernel)
        and kernel.may_write(f"{folder}/cgroup.subtree_control")
        and _cpu_can_reach(folder, top, kernel)
    )


def _cpu_can_reach(folder: str, top: str, kernel: Kernel) -> bool:
    """Whether a cgroup has the controller cpu, or those above can hand it down as far as that."""
    if _has_cpu(folder, kernel):
        return True
    if folder == top:
        return False
    above = str(Path(folder).parent)
    return (
        kernel.may_write(f"{above}/cgroup.subtree_control")
        and not _holds_processes(above, kernel)
        and _cpu_can_reach(above, top, kernel)
    )


def _has_cpu(folder: str, kernel: Kernel) -> bool:
    return "cpu" in kernel.read(f"{folder}/cgroup.controllers").split()


def _holds_processes(folder: str, kernel: Kernel) -> bool:
    """Whether a cgroup that must not hand controllers down because of that holds processes."""
    return not is_root(folder) and bool(kernel.read(f"{folder}/cgroup.threads").split())
