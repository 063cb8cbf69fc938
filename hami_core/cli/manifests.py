"""``hami manifests``: prints the objects that helm would install, without needing helm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command("manifests")
@click.option(
    "-f", "--values", "files", multiple=True, metavar="FILE", help="Values file (YAML), - for stdin; later files win."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One value, as with helm's --set.")
@click.option("--set-string", "texts", multiple=True, metavar="KEY=VALUE", help="One value, always taken as text.")
@click.option("--set-json", "jsons", multiple=True, metavar="KEY=JSON", help="One value, written as JSON.")
@click.option("--name", default="hami", show_default=True, help="Name of the release; part of object names.")
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Namespace of the objects.")
@click.option("--kube-version", default="", metavar="1.36.3", help="Version of the cluster and of kube-scheduler.")
@click.option(
    "-a",
    "--api-versions",
    "api_versions",
    multiple=True,
    metavar="GROUP/VERSION[/KIND]",
    help="A custom API that the cluster serves, such as monitoring.coreos.com/v1 (then all its kinds).",
)
@click.option("--show-values", is_flag=True, help="Print all values with their meaning, and nothing else.")
def command(
    *,
    files: tuple[str, ...],
    settings: tuple[str, ...],
    texts: tuple[str, ...],
    jsons: tuple[str, ...],
    name: str,
    namespace: str,
    kube_version: str,
    api_versions: tuple[str, ...],
    show_values: bool,
) -> None:
    """Print the Kubernetes objects of an installation.

    They are the same as the Helm chart's for the same values:

      hami manifests --kube-version 1.36.3 -f values.yaml | kubectl apply --server-side -f -
    """
    from hami_core.documents import load_mapping
    from hami_core.manifests import Chart, Release, folder, render, warnings
    from hami_core.manifests import values as values_of

    if show_values:
        print((folder() / "values.yaml").read_text(), end="")
        return
    given: dict[str, Any] = {}
    origins: list[tuple[str, dict[str, Any]]] = []
    for file in files:
        where = "stdin" if file == "-" else file
        origins.append((where, load_mapping(_text(file), where)))
        given = values_of.joined(given, origins[-1][1])
    for kind, group in (("json", jsons), ("any", settings), ("string", texts)):
        for setting in group:
            values_of.assign(given, setting, kind=kind)
            origins.append((f"--set {setting}"[:80], {}))
            values_of.assign(origins[-1][1], setting, kind=kind)
    release, chart = Release(name, namespace, kube_version, api_versions), Chart.read()
    manifests = render(chart, given, release, origins)
    for warning in warnings(chart, given, release):
        click.echo(f"hami: warning: {warning}", err=True)
    for manifest in manifests:
        print(f"---\n# Source: {manifest.source}\n{manifest.text}")


def _text(file: str) -> str:
    from hami_core.documents import MAX_BYTES, decoded, read_text

    return decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin") if file == "-" else read_text(Path(file))
