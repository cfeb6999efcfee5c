# SPDX-License-Identifier: Apache-2.0
"""Images and pod templates of a local cluster, as files."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from penstock.adaptors.kubernetes_server.images import PAUSE_IMAGE, SPARK_IMAGE, write_images
from penstock.adaptors.kubernetes_server.spark_pods import MASTER, spark_settings
from penstock.adaptors.spark.master_address import MasterAddress, MasterKind


def test_an_archive_names_its_image_and_its_layer(tmp_path: Path) -> None:
    """The manifest's parts are in the archive, and the configuration has the layer's digest."""
    pause = tmp_path / "pause"
    pause.write_bytes(b"\x7fELF")
    names = []
    for path in write_images(tmp_path / "images", pause):
        with tarfile.open(path) as archive:
            files = {name: archive.extractfile(name) for name in archive.getnames()}
            read = {name: file.read() for name, file in files.items() if file is not None}
        (manifest,) = json.loads(read["manifest.json"])
        names += manifest["RepoTags"]
        layer = hashlib.sha256(read[manifest["Layers"][0]]).hexdigest()
        assert json.loads(read[manifest["Config"]])["rootfs"]["diff_ids"] == [f"sha256:{layer}"]
    assert names == [PAUSE_IMAGE, SPARK_IMAGE]


def test_executors_see_this_machines_programs_and_write_where_they_may(tmp_path: Path) -> None:
    """Each folder is mounted once, at its own path; only those named may be written to."""
    work = tmp_path / "work"
    work.mkdir()
    settings = spark_settings(tmp_path, namespace="streams", writable=[work])
    assert settings["spark.kubernetes.namespace"] == "streams"
    assert MasterAddress.parse(MASTER).kind is MasterKind.KUBERNETES
    template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
    (container,) = template["spec"]["containers"]
    mounts = {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]}
    assert mounts["/usr"]
    assert mounts[str(work)] is False
    assert len(mounts) == len(template["spec"]["volumes"]) == len(container["volumeMounts"])
