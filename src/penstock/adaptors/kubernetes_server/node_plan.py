# SPDX-License-Identifier: Apache-2.0
"""What a node is started with: files of its servers, and their command lines (for `keeper`).

All addresses are inside the node's own network namespace, so any will do, and nothing of the machine's is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.adaptors.kubernetes_server.certificates import Authority
from penstock.adaptors.kubernetes_server.distribution import PAUSE, SERVER, Distribution
from penstock.adaptors.kubernetes_server.images import PAUSE_IMAGE, write_images
from penstock.adaptors.kubernetes_server.keeper import LOG_FOLDER, PLAN_FILE, own_groups

NODE = "node1"
ADDRESS = "10.88.77.1"
"""Of the node, on the bridge that its pods are on."""
SERVICE_ADDRESS = "10.96.0.1"
"""Of the API as pods know it. Nothing forwards services here: the node has this address, too."""
PORT = 443
KUBECONFIG = "kubeconfig"
AUDIT = f"{LOG_FOLDER}/audit.log"
"""What service accounts have asked the API, a line of JSON for each call: so it shows which rights a job needs."""
IMPORTED = "images/imported"
"""A file that is there once the node has its images."""
SERVERS = ("etcd", "containerd", "images", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")

_SUBNET, _FIRST_POD, _SERVICES = "10.88.77.0/24", "10.88.77.10", "10.96.0.0/24"
_ETCD, _ETCD_PEER = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
_CONTAINERD = "/run/containerd/containerd.sock"
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What the kubelet wants them to be. It gets files that say so."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Writes a node's files into a folder.

    Attributes
    ----------
    folder
        Of the node; nobody else may read it, for it holds keys.
    place
        Where the keeper's pid means something (`identity.place`): for the name of its control groups.
    owner
        The process that the node ends with; None: it runs until it is stopped.
    """

    folder: Path
    place: str
    distribution: Distribution
    owner: int | None = None

    def write(self) -> None:
        """Write everything that the keeper and the servers read."""
        self._write_certificates()
        for user in ("admin", "kubelet"):
            self._write_json(KUBECONFIG if user == "admin" else f"{user}.{KUBECONFIG}", self._kubeconfig(user))
        self._write_json("kubelet.json", self._kubelet())
        self._write_json("audit.json", _audited())
        (self.folder / "containerd.toml").write_text(self._containerd())
        (self.folder / "cni").mkdir()
        self._write_json("cni/10-bridge.conflist", _network())
        images = write_images(self.folder / "images", self.distribution.programs / PAUSE)
        self._write_json(
            PLAN_FILE,
            {
                "place": self.place,
                "owner": self.owner,
                "address": ADDRESS,
                "service_address": SERVICE_ADDRESS,
                "programs": str(self.distribution.programs),
                "hierarchies": list(own_groups("")),
                "sysctls": _SYSCTLS,
                "servers": self._servers(images),
            },
        )

    @property
    def _keys(self) -> Path:
        return self.folder / "keys"

    def _write_certificates(self) -> None:
        authority = Authority(self._keys)
        authority.make_key("accounts")
        authority.sign(
            "apiserver",
            "/CN=kube-apiserver",
            ("127.0.0.1", ADDRESS, SERVICE_ADDRESS),
            ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        )
        authority.sign("admin", "/O=system:masters/CN=admin")
        authority.sign("kubelet", f"/O=system:nodes/CN=system:node:{NODE}", (ADDRESS,), (NODE,))

    def _kubeconfig(self, user: str) -> dict[str, Any]:
        keys = self._keys
        cluster = {"server": f"https://{ADDRESS}:{PORT}", "certificate-authority": str(keys / "ca.crt")}
        login = {"client-certificate": str(keys / f"{user}.crt"), "client-key": str(keys / f"{user}.key")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "penstock", "cluster": cluster}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": "penstock", "context": {"cluster": "penstock", "user": user}}],
            "current-context": "penstock",
        }

    def _kubelet(self) -> dict[str, Any]:
        keys = self._keys
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(keys / "ca.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},  # of those with a certificate: the API server alone
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{_CONTAINERD}",
            "tlsCertFile": str(keys / "kubelet.crt"),
            "tlsPrivateKeyFile": str(keys / "kubelet.key"),
            "volumePluginDir": str(self.folder / "kubelet" / "plugins"),
            "makeIPTablesUtilChains": False,
            # The disk is the machine's own: how full it is is not this node's affair.
            "localStorageCapacityIsolation": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": dict.fromkeys(
                ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"
            ),
        }

    def _containerd(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        runc = f"{cri}.containerd.runtimes.runc"
        return f"""version = 2
root = "{self.folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{_CONTAINERD}"
[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  # A machine may not allow it to keep processes from the kernel's out-of-memory killer.
  restrict_oom_score_adj = true
  [{cri}.cni]
    bin_dir = "{self.distribution.programs}"
    conf_dir = "{self.folder}/cni"
  [{runc}]
    runtime_type = "io.containerd.runc.v2"
    [{runc}.options]
      BinaryName = "{self.distribution.programs}/runc"
      SystemdCgroup = false
"""

    def _servers(self, images: list[Path]) -> dict[str, Any]:
        server, keys, folder = str(self.distribution.programs / SERVER), self._keys, self.folder
        admin = f"--kubeconfig={folder / KUBECONFIG}"
        imports = " && ".join(f"ctr -n k8s.io images import {image}" for image in images)
        lines: dict[str, list[str]] = {
            "etcd": [
                server, "etcd", "--name=penstock", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync",
                f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}",
                f"--listen-peer-urls={_ETCD_PEER}", f"--initial-advertise-peer-urls={_ETCD_PEER}",
                f"--initial-cluster=penstock={_ETCD_PEER}",
            ],
            "containerd": [str(self.distribution.programs / "containerd"), "-c", str(folder / "containerd.toml")],
            "images": ["/bin/sh", "-c", f"until ctr version; do sleep 0.2; done; {imports} && touch {IMPORTED}"],
            "kube-apiserver": [
                server, "kube-apiserver", f"--etcd-servers={_ETCD}", f"--advertise-address={ADDRESS}",
                "--bind-address=0.0.0.0", f"--secure-port={PORT}", f"--service-cluster-ip-range={_SERVICES}",
                f"--tls-cert-file={keys / 'apiserver.crt'}", f"--tls-private-key-file={keys / 'apiserver.key'}",
                f"--client-ca-file={keys / 'ca.crt'}", "--authorization-mode=Node,RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={keys / 'accounts.pub'}",
                f"--service-account-signing-key-file={keys / 'accounts.key'}",
                f"--kubelet-client-certificate={keys / 'admin.crt'}", f"--kubelet-client-key={keys / 'admin.key'}",
                f"--kubelet-certificate-authority={keys / 'ca.crt'}", "--kubelet-preferred-address-types=InternalIP",
                f"--audit-policy-file={folder / 'audit.json'}", f"--audit-log-path={folder / AUDIT}",
                "--audit-log-maxsize=20", "--audit-log-maxbackup=3",
            ],
            "kube-controller-manager": [
                server, "kube-controller-manager", admin, "--leader-elect=false", "--bind-address=127.0.0.1",
                f"--root-ca-file={keys / 'ca.crt'}", "--use-service-account-credentials=false",
                f"--service-account-private-key-file={keys / 'accounts.key'}",
            ],
            "kube-scheduler": [server, "kube-scheduler", admin, "--leader-elect=false", "--bind-address=127.0.0.1"],
            "kubelet": [
                server, "kubelet", f"--config={folder / 'kubelet.json'}",
                f"--kubeconfig={folder / f'kubelet.{KUBECONFIG}'}", f"--root-dir={folder / 'kubelet'}",
                f"--cert-dir={folder / 'kubelet' / 'keys'}", f"--hostname-override={NODE}", f"--node-ip={ADDRESS}",
            ],
        }  # fmt: skip
        return {name: {"argv": lines[name], "once": name == "images"} for name in SERVERS}

    def _write_json(self, name: str, value: Any) -> None:
        (self.folder / name).write_text(json.dumps(value, indent=1))


def _audited() -> dict[str, Any]:
    rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}


def _network() -> dict[str, Any]:
    pods = {"subnet": _SUBNET, "rangeStart": _FIRST_POD, "gateway": ADDRESS}
    addresses = {
        "type": "host-local",
        "dataDir": "/run/addresses",
        "ranges": [[pods]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "penstock",
        "plugins": [{"type": "bridge", "bridge": "k8s0", "ipam": addresses}],
    }
