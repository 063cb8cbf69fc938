"""``hami version``: what is installed here."""

from __future__ import annotations

import json
import platform

import click

from hami_core._version import __version__


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """Print the versions of hami, the hook API, Python and the installed plugins.

    It asks no cluster, and it imports no plugin. `hami doctor` shows what runs in a cluster.
    """
    from hami_core.hookspecs import API_VERSION
    from hami_core.plugins.discovery import NODE, PLUGINS, VENDORS, installed

    plugins = {source.name: source for group in (NODE, PLUGINS, VENDORS) for source, _ in installed(group)}
    hook_api = ".".join(map(str, API_VERSION))
    if as_json:
        listed = [
            {"name": name, "distribution": source.distribution, "version": source.version}
            for name, source in sorted(plugins.items())
        ]
        document = {"version": __version__, "apiVersion": hook_api, "python": platform.python_version()}
        print(json.dumps({**document, "plugins": listed}, indent=1))
        return
    lines = {"hami": __version__, "hook API": hook_api, "Python": platform.python_version()}
    lines |= {name: source.label for name, source in sorted(plugins.items())}
    for name, version in lines.items():
        print(f"{name:<9}  {version}")
