"""The package: found by entry point, named properly, harmless to import."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from hami_core.hookspecs import API_VERSION
from hami_core.plugins.discovery import NODE, VENDORS
from hami_core.plugins.manager import api_version, check_families
from hami_core.testing.suites.case import VendorCase, source_of

if TYPE_CHECKING:
    from hami_core.plugins.vendor import LoadedVendor

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

_PROBE = """
import sys
acts = []
def audit(event, args):
    if event == "ctypes.dlopen" and args and args[0]:
        acts.append(f"loads {args[0]}")
    if event.startswith(("socket.connect", "subprocess.")):
        acts.append(event)
    if event == "open" and str(args[0]).startswith(("/dev/", "/sys/", "/proc/driver")):
        if str(args[0]) not in ("/dev/null", "/dev/urandom"):
            acts.append(f"opens {args[0]}")
import hami_core.model, hami_core.hookspecs, hami_core.vendorkit, numpy, pydantic
sys.addaudithook(audit)
__import__(sys.argv[1])
print("\\n".join(acts))
"""


class DiscoverySuite(VendorCase):
    """The package itself."""

    def test_entry_point_names_this_class(self, vendor: object) -> None:
        """The group hami.vendors of an installed distribution leads to the class under test."""
        source = source_of(vendor, VENDORS)
        assert source.distribution, (
            f"no installed distribution has an entry point in group {VENDORS} for {source.target}; "
            "declare it in pyproject.toml and install the package"
        )

    def test_entry_point_name_is_legal(self, vendor: object) -> None:
        """Lower case, digits and dashes: it becomes part of settings and file names."""
        name = source_of(vendor, VENDORS).name
        assert _NAME.fullmatch(name), f"{name!r} should match {_NAME.pattern}"

    def test_node_side_has_the_same_name(self, vendor: object, node_side: object | None) -> None:
        """The two entry points of one vendor are found by their common name."""
        scheduler_side = source_of(vendor, VENDORS)
        if node_side is not None and scheduler_side.distribution:
            assert source_of(node_side, NODE).name == scheduler_side.name

    def test_class_is_made_without_arguments(self, vendor: object) -> None:
        """As the loader does it."""
        type(vendor)()

    def test_states_a_version_of_the_contract_we_have(self, vendor: object) -> None:
        """``api_version = (major, minor)`` of the contract it was written for."""
        assert hasattr(type(vendor), "api_version"), f"state api_version = {API_VERSION} on the class"
        stated = api_version(type(vendor))
        assert stated is not None
        assert stated[0] == API_VERSION[0]

    def test_importing_the_scheduler_side_touches_no_device(self, vendor: object) -> None:
        """No driver library, device file, connection or process: schedulers run on machines without devices."""
        command = [sys.executable, "-c", _PROBE, type(vendor).__module__]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == ""

    def test_names_are_legal_in_kubernetes(self, loaded: LoadedVendor) -> None:
        """Resource names are extended resources, annotation keys are qualified names."""
        for family in loaded.families:
            for name in family.resources.names():
                assert _RESOURCE.fullmatch(name), f"{family.word}: resource {name!r} should be domain/name"
            keys = [
                family.allocated_key,
                family.to_allocate_key,
                family.register_key,
                family.handshake_key,
                family.foreign_lock,
            ]
            for key in filter(None, [*keys, *family.pod_keys]):
                assert _KEY.fullmatch(key), f"{family.word}: annotation key {key!r} is not legal"

    def test_families_are_the_same_each_time(self, loaded: LoadedVendor) -> None:
        """They depend on the configuration alone."""
        assert loaded.families
        assert check_families(loaded.families, loaded.source) == loaded.families
