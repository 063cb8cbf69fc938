"""The package: its entry points, its names, and that its import has no side effects."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from hami_core.hookspecs import API_VERSION
from hami_core.plugins import examine
from hami_core.plugins.discovery import NODE, VENDORS, installed
from hami_core.plugins.manager import api_version, check_families
from hami_core.testing.suites.case import VendorCase, source_of

if TYPE_CHECKING:
    from hami_core.plugins.vendor import LoadedVendor

IMPORT_LIMIT_S = 15

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
    """Tests of the package."""

    def test_entry_point_names_this_class(self, vendor: object) -> None:
        """An entry point of an installed distribution, in the group hami.vendors, names the class under test."""
        source = source_of(vendor, VENDORS)
        assert source.distribution, (
            f"no installed distribution has an entry point in group {VENDORS} for {source.target}; "
            "declare it in pyproject.toml and install the package"
        )

    def test_entry_point_name_is_legal(self, vendor: object) -> None:
        """The name has only lower case, digits and dashes, because settings and file names contain it."""
        problem = examine.entry_point_problem(source_of(vendor, VENDORS).name)
        assert not problem, problem

    def test_scheduler_side_has_no_hooks_of_the_node(self, vendor: object) -> None:
        """The scheduler must not import a driver, so hooks of the node belong in the node side's class."""
        problem = examine.node_hooks_of_scheduler_side(vendor)
        assert not problem, problem

    def test_node_side_has_the_same_name(self, vendor: object, node_side: object | None) -> None:
        """The loader finds the two entry points of a vendor by their common name."""
        scheduler_side = source_of(vendor, VENDORS)
        if node_side is not None and scheduler_side.distribution:
            found = source_of(node_side, NODE).name
            assert found == scheduler_side.name, f"the node side is called {found!r} in group {NODE}"
        for source, _ in installed(NODE):
            if scheduler_side.distribution and source.distribution == scheduler_side.distribution:
                problem = examine.node_name_problem(source)
                assert not problem, f"{source.name}: {problem}"

    def test_class_is_made_without_arguments(self, vendor: object) -> None:
        """The loader calls the class without arguments."""
        type(vendor)()

    def test_states_a_version_of_the_contract_we_have(self, vendor: object) -> None:
        """The class states ``api_version = (major, minor)``: the contract that it was written for."""
        problem = examine.missing_api_version(vendor)
        assert not problem, problem
        stated = api_version(type(vendor))
        assert stated is not None, f"api_version is {getattr(vendor, 'api_version', None)!r}, write {API_VERSION}"
        assert stated[0] == API_VERSION[0], f"is built for hook API {stated}, this is {API_VERSION}"

    def test_importing_the_scheduler_side_touches_no_device(self, vendor: object) -> None:
        """The import uses no driver library, device file, connection or process: schedulers have no devices."""
        command = [sys.executable, "-c", _PROBE, type(vendor).__module__]
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        assert not done.stdout.strip(), f"importing {type(vendor).__module__}: {done.stdout.strip()}"

    def test_names_are_legal_in_kubernetes(self, loaded: LoadedVendor) -> None:
        """Resource names must be extended resources, and annotation keys qualified names."""
        problems = [text for family in loaded.families for text in examine.name_problems(family)]
        assert not problems, "; ".join(problems)

    def test_allocation_keys_are_protected(self, loaded: LoadedVendor) -> None:
        """The admission policy forbids users to write keys of HAMi's form. Any other key could be forged."""
        problems = [text for text in map(examine.allocated_key_problem, loaded.families) if text]
        assert not problems, "; ".join(problems)

    def test_families_are_the_same_each_time(self, loaded: LoadedVendor) -> None:
        """The families depend only on the configuration."""
        assert loaded.families
        assert check_families(loaded.families, loaded.source) == loaded.families
