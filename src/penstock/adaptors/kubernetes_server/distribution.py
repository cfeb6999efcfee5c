# SPDX-License-Identifier: Apache-2.0
"""The programs of a Kubernetes node: servers built from source with Go, the container runtime from Debian's packages.

Nobody publishes Kubernetes' servers in a package registry, but the Go module proxy has their source. Debian's packages
are unpacked into the cache folder and not installed. Both happen once: the build takes a quarter of an hour of CPU.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder
from penstock.errors import ClusterError, ConfigurationError

SOURCE = Path(__file__).parent / "server"
SERVER, PAUSE = "kubernetes-server", "pause"
_PACKAGES = {
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr"),
    "runc": ("usr/sbin/runc",),
    "containernetworking-plugins": ("usr/lib/cni/bridge", "usr/lib/cni/host-local", "usr/lib/cni/loopback"),
}
_NEEDED = {
    "go": "install Go 1.24 or newer",
    "apt-get": "use a Debian or Ubuntu",
    "dpkg-deb": "use a Debian or Ubuntu",
    "openssl": "apt-get install openssl",
    "nsenter": "apt-get install util-linux",
}


@dataclass(frozen=True, slots=True)
class Distribution:
    """The folder that holds all programs of a node, and the version of Kubernetes."""

    programs: Path
    version: str


def kubernetes_version(source: Path = SOURCE) -> str:
    """Return the version that the Go module asks for."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", (source / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{source / 'go.mod'} names no version of k8s.io/kubernetes", target="kubernetes")
    return found[1]


def why_not_here(which: Callable[[str], str | None] = shutil.which, *, is_root: bool | None = None) -> str | None:
    """Return in one line why no cluster can be started on this machine. None: it can, as far as can be seen."""
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return "it makes namespaces, which needs root; run it as root: sudo -E env PATH=$PATH <your command>"
    if platform.machine() != "x86_64":
        return f"it has been seen on x86_64 alone, and this machine is {platform.machine()}"
    needed = {"openssl", "nsenter"} if find_distribution() is not None else set(_NEEDED)
    missing = [f"{name} ({fix})" for name, fix in _NEEDED.items() if name in needed and which(name) is None]
    return f"programs are missing: {', '.join(missing)}" if missing else None


def find_distribution(environment: Mapping[str, str] = os.environ) -> Distribution | None:
    """Return what an earlier call has made. None: nothing is there, or it was made of other sources."""
    folder = _folder(environment)
    return Distribution(folder, kubernetes_version()) if (folder / "complete").exists() else None


def fetch_kubernetes(tell: Callable[[str], None] | None = None) -> Distribution:
    """Return the programs, built and fetched if they are not there yet.

    Raises
    ------
    ConfigurationError
        Something is missing on this machine; nothing was done.
    ClusterError
        The build or a download failed; the message has its last lines.
    """
    found = find_distribution()
    if found is not None:
        return found
    reason = why_not_here()
    if reason is not None:
        raise ConfigurationError(f"kubernetes: {reason}", field="kubernetes")
    say = tell or (lambda _: None)
    folder = _folder(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several that start at once, one builds for all
        if not (folder / "complete").exists():
            say(f"building Kubernetes {kubernetes_version()} (once, a quarter of an hour of CPU) into {folder}")
            _build(folder)
            say("fetching containerd, runc and network plugins (35 MB)")
            _unpack(folder)
            (folder / "complete").touch()
    return Distribution(folder, kubernetes_version())


def _folder(environment: Mapping[str, str]) -> Path:
    """The folder for this version of the sources: others are built anew."""
    digest = hashlib.sha256()
    for file in sorted([*SOURCE.rglob("*.go"), *SOURCE.glob("go.*")]):
        digest.update(file.read_bytes())
    return cache_folder(environment) / "kubernetes" / f"{kubernetes_version()}-{digest.hexdigest()[:8]}"


def _build(folder: Path) -> None:
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{kubernetes_version()}"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    for name, package in ((SERVER, "."), (PAUSE, "./pause")):
        draft = folder / f"{name}.draft"
        argv = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(draft), package]
        _run(argv, SOURCE, environment, "Kubernetes could not be built")
        draft.replace(folder / name)


def _unpack(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        place.chmod(0o755)
        _run(["apt-get", "download", *_PACKAGES], place, dict(os.environ), "Debian's packages could not be fetched")
        for package, files in _PACKAGES.items():
            archive = next(place.glob(f"{package}_*.deb"))
            _run(["dpkg-deb", "-x", str(archive), str(place / package)], place, None, f"{package} cannot be unpacked")
            for file in files:
                shutil.copy2(place / package / file, folder / Path(file).name)


def _run(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None, what: str) -> None:
    done = subprocess.run(argv, cwd=cwd, env=env, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).splitlines()[-15:])
        raise ClusterError(f"{what}: {argv[0]} ended with exit code {done.returncode}:\n{last}", target="kubernetes")
