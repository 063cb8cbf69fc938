"""Writes `hami_core/sim/proto/kubernetes.proto`: the messages of Kubernetes' API that the embedded cluster decodes.

``python contrib/kubernetes_proto.py K8S_IO_API K8S_IO_APIMACHINERY`` takes the folders of the two Go modules. It copies
the messages of `KINDS` and those that they contain, without comments, into one package.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "hami_core/sim/proto/kubernetes.proto"
KINDS = {
    "pkg/runtime": ("Unknown",),  # first: its TypeMeta is the one that messages contain
    "pkg/apis/meta/v1": ("DeleteOptions",),
    "core/v1": (
        "Binding", "ConfigMap", "Event", "Namespace", "Node", "Pod", "ResourceQuota", "Secret", "Service",
        "ServiceAccount",
    ),
    "apps/v1": ("DaemonSet", "Deployment", "ReplicaSet"),
    "autoscaling/v1": ("Scale",),
    "batch/v1": ("Job",),
    "coordination/v1": ("Lease",),
    "policy/v1": ("Eviction",),
    "scheduling/v1alpha3": (),
    "pkg/api/resource": (),
    "pkg/util/intstr": (),
}  # fmt: skip
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_HEAD = """\
// Messages of Kubernetes' API, copied from k8s.io/api and k8s.io/apimachinery {version} by contrib/kubernetes_proto.py.
// Copyright The Kubernetes Authors, Apache License 2.0.
syntax = "proto2";

package kubernetes;
"""


def main(api: Path, machinery: Path) -> None:
    """Writes the file."""
    messages: dict[str, str] = {}
    for folder in KINDS:
        source = (machinery if folder.startswith("pkg/") else api) / folder / "generated.proto"
        text = re.sub(r"^\s*(//.*)?\n", "", source.read_text("utf-8"), flags=re.MULTILINE)
        for name, body in _MESSAGE.findall(text):
            messages.setdefault(name, re.sub(r"\.?k8s\.io\.[\w.]+\.(\w+)", r"\1", body))
    wanted, todo = set[str](), [name for names in KINDS.values() for name in names]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += [word for word in re.findall(r"\w+", messages[name]) if word in messages]
    blocks = [f"message {name} {{\n{messages[name]}}}\n" for name in sorted(wanted)]
    TARGET.write_text("\n".join([_HEAD.format(version=api.name.partition("@")[2]), *blocks]), "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
