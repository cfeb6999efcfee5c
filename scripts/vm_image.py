# SPDX-License-Identifier: Apache-2.0
"""The disk of a small Debian with its own kernel, for tests that need a kernel this machine may not have.

It is made once, into Penstock's cache, by debootstrap and mke2fs; nothing is mounted and nothing is installed here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder

RELEASE = "bookworm"
PACKAGES = (
    "linux-image-cloud-amd64",
    "systemd-sysv",
    "libpam-systemd",  # the user's own systemd
    "dbus",
    "python3",
    "procps",
)
USER, USER_ID = "streams", 1000
"""An ordinary user, whose systemd hands a part of the control groups down to him."""
MEGABYTES = 1500
UNITS = Path(__file__).parent / "vm"
NEEDED = {
    "qemu-system-x86_64": "apt-get install qemu-system-x86",
    "debootstrap": "apt-get install debootstrap",
    "mke2fs": "apt-get install e2fsprogs",
}


class ImageError(Exception):
    """The image could not be made; the message has the last lines of what failed."""


@dataclass(frozen=True, slots=True)
class Image:
    """A disk that a virtual machine can start from."""

    disk: Path
    kernel: Path
    initrd: Path

    @property
    def kernel_version(self) -> str:
        """The version of its kernel, such as 6.1.0-25-cloud-amd64."""
        return self.kernel.name.removeprefix("vmlinuz-")


def why_not_here(which: Callable[[str], str | None] = shutil.which, *, is_root: bool | None = None) -> str | None:
    """Return in one line why no virtual machine can be had on this machine. None: it can, as far as can be seen."""
    if platform.machine() != "x86_64":
        return f"it has been seen on x86_64 alone, and this machine is {platform.machine()}"
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return "debootstrap needs root; run it as root: sudo -E env PATH=$PATH make test-cgroup-v2"
    missing = [f"{name} ({fix})" for name, fix in NEEDED.items() if which(name) is None]
    return f"programs are missing: {', '.join(missing)}" if missing else None


def fetch_image() -> Image:
    """Return the image, made if it is not there yet. It appears whole or not at all."""
    folder = cache_folder() / "vm" / f"debian-{RELEASE}-{_digest()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several that start at once, one makes it for all
        for unfinished in folder.parent.glob(".making-*"):
            shutil.rmtree(unfinished)  # its maker was killed
        if not folder.is_dir():
            print(f"penstock: making a small Debian (once, some minutes, 250 MB fetched) in {folder}", flush=True)
            with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as temporary:
                made = Path(temporary) / "made"
                made.mkdir()
                _make(Path(temporary) / "tree", made)
                made.rename(folder)
    return Image(folder / "disk.img", next(folder.glob("vmlinuz-*")), next(folder.glob("initrd.img-*")))


def make_disk(tree: Path, disk: Path, megabytes: int) -> None:
    """Write a folder's files onto a new ext4 disk. Nothing is mounted for that."""
    with disk.open("wb") as file:
        file.truncate(megabytes << 20)
    _run(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(disk)])


def _make(tree: Path, made: Path) -> None:
    _run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(tree)])
    _run(["chroot", str(tree), "useradd", "--uid", str(USER_ID), "--create-home", USER])
    for unit in sorted(UNITS.glob("*.service")):
        shutil.copy(unit, tree / "etc/systemd/system")
    for kernel in (*tree.glob("boot/vmlinuz-*"), *tree.glob("boot/initrd.img-*")):
        shutil.copy(kernel, made)
    shutil.rmtree(tree / "var/cache/apt", ignore_errors=True)
    make_disk(tree, made / "disk.img", MEGABYTES)


def _digest() -> str:
    """Another recipe gives another image."""
    digest = hashlib.sha256(repr((RELEASE, PACKAGES, USER, USER_ID, MEGABYTES)).encode())
    for unit in sorted(UNITS.glob("*.service")):
        digest.update(unit.read_bytes())
    return digest.hexdigest()[:8]


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-15:])
        raise ImageError(f"{argv[0]} ended with exit code {done.returncode}:\n{last}")


if __name__ == "__main__":
    try:
        print(fetch_image())
    except ImageError as fault:
        sys.exit(f"penstock: {fault}")
