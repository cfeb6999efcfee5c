# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of CPU shares on a real kernel with cgroup v2: in a small virtual machine, as root and as a user.

The machine has an emulated CPU (QEMU without KVM), a disk that is put back as it was, a second one with the sources and
pytest, and no network. Arguments are pytest's. 0: all passed; a machine that cannot be had is told and is no failure.
"""

from __future__ import annotations

import compileall
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from vm_image import USER, USER_ID, Image, ImageError, fetch_image, make_disk, why_not_here

from penstock.adaptors.process.children import Child, Warden

REPOSITORY = Path(__file__).parents[1]
INSIDE = Path(__file__).parent / "vm" / "inside.sh"
TESTS = "tests/integration/cgroups"
PACKAGES = ("pytest", "pytest-timeout", "numpy")
"""What these tests need."""
REPORTS = ("as root", "as a user with a delegated group")
"""What the reports of the second and third serial line are of."""
MEMORY = "1024"
LONGEST_SECONDS = 1800.0
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def with_requirements(names: Iterable[str]) -> set[str]:
    """Return distributions and all that these ask for, of what is installed here."""
    found: set[str] = set()
    rest = list(names)
    while rest:
        name = rest.pop()
        if name in found:
            continue
        found.add(name)
        for requirement in metadata.requires(name) or ():
            word = _REQUIREMENT.match(requirement)
            if word is not None and "extra ==" not in requirement and _is_installed(word[0]):
                rest.append(word[0])
    return found


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def copy_packages(names: Iterable[str], target: Path) -> None:
    """Copy the files of installed distributions."""
    for name in sorted(names):
        for file in metadata.files(name) or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or not source.is_file():
                continue  # programs in bin
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / file)  # with its time, so that what is compiled already is taken


def fill(tree: Path, arguments: Sequence[str]) -> None:
    """Put everything that is run inside into a folder: sources, tests, pytest and the script that runs them."""
    for folder in ("src", TESTS):
        shutil.copytree(REPOSITORY / folder, tree / folder)
    shutil.copy(REPOSITORY / "pyproject.toml", tree)
    copy_packages(with_requirements(PACKAGES), tree / "packages")
    for folder in ("src", "tests", "packages"):
        compileall.compile_dir(tree / folder, quiet=2)  # an emulated CPU would take minutes over it
    given = f"user={USER} user_id={USER_ID} tests=({shlex.join([TESTS, *arguments])})\n"
    (tree / "inside.sh").write_text(given + INSIDE.read_text(encoding="utf-8"), encoding="utf-8")


def qemu(image: Image, disk: Path, reports: Sequence[Path]) -> list[str]:
    """Return the command line of the machine."""
    append = "root=/dev/vda rw console=ttyS0 quiet loglevel=3 systemd.unit=penstock-tests.service"
    line = ["qemu-system-x86_64"]
    # Time inside goes on with the instructions that were run, and jumps where nothing is to be done: on a busy machine
    # tests take longer, and see nothing of it.
    line += ["-icount", "shift=1,sleep=off"]
    line += ["-accel", "tcg", "-cpu", "max", "-m", MEMORY, "-nodefaults", "-no-user-config", "-no-reboot"]
    line += ["-display", "none", "-nic", "none", "-serial", "stdio"]
    line += [word for report in reports for word in ("-serial", f"file:{report}")]
    line += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", append]
    line += ["-drive", f"file={image.disk},format=raw,if=virtio,snapshot=on"]
    line += ["-drive", f"file={disk},format=raw,if=virtio"]
    return line


def run(image: Image, arguments: Sequence[str]) -> list[ElementTree.Element | None]:
    """Run the tests inside. Return pytest's reports; None for one that did not come.

    The machine and its folder end with this process, even if that is killed.
    """
    with Warden() as warden:
        folder = warden.temporary_folder()
        fill(folder / "tree", arguments)
        make_disk(folder / "tree", folder / "disk.img", 400)
        shutil.rmtree(folder / "tree")
        reports = [folder / f"report-{number}.xml" for number in range(len(REPORTS))]
        environment = {**os.environ, "TMPDIR": str(folder)}  # what the machine writes to its first disk goes there, too
        line = qemu(image, folder / "disk.img", reports)
        machine = warden.start("the virtual machine", line, log=folder / "console.log", env=environment)
        _follow(machine)
        return [_parsed(report) for report in reports]


def _follow(machine: Child) -> None:
    """Print what the machine says until it is off."""
    deadline = time.monotonic() + LONGEST_SECONDS
    with machine.log.open(encoding="utf-8", errors="replace", newline="") as console:
        is_off = False
        while not is_off:
            is_off = machine.wait(0.5) is not None
            print(console.read().replace("\r", ""), end="", flush=True)
            if time.monotonic() > deadline:
                print(f"penstock: the virtual machine was ended after {LONGEST_SECONDS:g} s", file=sys.stderr)
                return


def _parsed(report: Path) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(report.read_text(encoding="utf-8", errors="replace").strip())
    except (OSError, ElementTree.ParseError):
        return None


def cell(report: ElementTree.Element | None) -> str:
    """Sum up a report in a few words."""
    suite = None if report is None else report.find("testsuite")
    if suite is None:
        return "NO RESULT"
    total, failed, errors, skipped = (int(suite.get(word, 0)) for word in ("tests", "failures", "errors", "skipped"))
    counts = {"passed": total - failed - errors - skipped, "FAILED": failed + errors, "skipped": skipped}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "NO TESTS"


def main(arguments: Sequence[str]) -> int:
    """Make the machine if it is not there, run the tests inside, and print the table for docs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is put away
    reason = why_not_here()
    if reason is not None:
        print(f"penstock: the tests on cgroup v2 are skipped: {reason}")
        return 0
    began = time.monotonic()
    try:
        image = fetch_image()
    except ImageError as fault:
        print(f"penstock: the tests on cgroup v2 are skipped: no virtual machine could be made: {fault}")
        return 0
    results = [cell(report) for report in run(image, arguments)]
    minutes = (time.monotonic() - began) / 60
    print(f"\n{datetime.now(UTC):%d %B %Y}, Linux {image.kernel_version}, {minutes:.0f} min:\n")
    print("| Tests on cgroup v2 | Result |\n|---|---|")
    for who, result in zip(REPORTS, results, strict=True):
        print(f"| {who} | {result} |")
    return 0 if all(re.fullmatch(r"\d+ passed(, \d+ skipped)?", result) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
