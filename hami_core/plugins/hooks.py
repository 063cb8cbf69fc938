"""The table of hooks: for each hook, one line with everything that its specification does not say.

A new hook needs a specification in `hami_core.hookspecs`, a line here, a caller and a test. `LoadedVendor`, which calls
hooks in the caller's thread, and the agent's `Vendor`, whose hooks are awaited, inherit their methods from this table.
"""

# ruff: noqa: ARG005 - checks get all arguments of their hook, by name
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hami_core import hookspecs as specs
from hami_core.errors import DeviceError, RequestError, VendorError, WireError
from hami_core.model import Reason
from hami_core.plugins import checks, tighten
from hami_core.plugins.call import Hook
from hami_core.plugins.metrics import samples
from hami_core.wire.reasons import VENDOR_PLUGIN_FAILED

if TYPE_CHECKING:
    from types import ModuleType


def refused(error: VendorError, *_: Any) -> Reason:  # noqa: ANN401 - the arguments of any hook
    """Make the refusal that replaces the answer of a failed rule."""
    return Reason(VENDOR_PLUGIN_FAILED, detail=str(error))


class StartHooks:
    """Hooks that are called once at loading, on each class of a vendor; they cannot be wrapped."""

    config_model: Hook[..., Any] = Hook(specs.config_model)
    families: Hook[..., Any] = Hook(specs.families, required=True)


class SchedulerHooks:
    """Hooks of the scheduler side."""

    register = Hook(
        specs.register,
        check_with=lambda served, answer, node: checks.devices(answer, served.words),
        tighten=tighten.subset,
        default=None,
        may_raise=(WireError,),
    )
    mutate_admission = Hook(specs.mutate_admission, check=checks.mutation, default=None, may_raise=(RequestError,))
    parse_request = Hook(
        specs.parse_request,
        check_with=lambda served, answer, container, pod, family: checks.request(answer, family.word, pod.annotations),
        default=None,
        may_raise=(RequestError,),
    )
    check_type = Hook(specs.check_type, check=checks.reason, tighten=tighten.refusals, default=None, failed=refused)
    check_uuid = Hook(specs.check_uuid, check=checks.reason, tighten=tighten.refusals, default=None, failed=refused)
    custom_filter = Hook(
        specs.custom_filter, check=checks.reason, tighten=tighten.refusals, default=None, failed=refused
    )
    fit_mask = Hook(
        specs.fit_mask,
        check_with=lambda served, answer, request, columns: checks.mask(answer, columns),
        tighten=tighten.mask,
        default=None,
        failed=lambda error, request, columns: checks.no_device(columns),
    )
    choose = Hook(
        specs.choose,
        check_with=lambda served, answer, request, candidates, policy, devices: checks.choice(
            answer, request.count, candidates
        ),
        tighten=tighten.choice,
        default=None,
        failed=refused,
    )
    account = Hook(
        specs.account,
        check_with=lambda served, answer, request, device, piece, taken: checks.piece(answer, piece),
        tighten=tighten.piece,
        default=None,
        failed=lambda error, request, device, piece, taken: Reason(
            VENDOR_PLUGIN_FAILED, piece.device_id, detail=str(error)
        ),
    )
    score_node = Hook(specs.score_node, check=checks.number, tighten=tighten.free, default=0.0, failed=lambda *_: 0.0)
    patch_annotations = Hook(specs.patch_annotations, check=checks.merged)
    lock_annotations = Hook(specs.lock_annotations, check=checks.locks)


class NodeHooks:
    """Hooks of the node side."""

    discover = Hook(
        specs.discover,
        check_with=lambda served, answer: checks.devices(answer, served.words),
        tighten=tighten.subset,
        required=True,
        limit_s=30.0,
    )
    advertise = Hook(specs.advertise, check=checks.advertisement, required=True)
    allocate = Hook(specs.allocate, check=checks.edits, required=True, pool="start", may_raise=(DeviceError,))
    health = Hook(specs.health, check=checks.changes, tighten=tighten.unhealthier)
    release = Hook(specs.release, check=checks.nothing, pool="start")
    tend = Hook(specs.tend, check=checks.nothing)
    metrics = Hook(
        specs.metrics,
        check_with=lambda served, answers, records, region_dirs: tuple(
            sample for answer in answers for sample in samples(answer, served.metric_specs)
        ),
        tighten=tighten.free,
    )


def table(specifications: ModuleType | type, *classes: type) -> dict[str, Hook[..., Any]]:
    """Return the hooks of some classes by name, in the order of their specifications.

    Raises:
        TypeError: A specification has no line, or a line has another name than its specification.
    """
    lines = {name: line for cls in classes for name, line in vars(cls).items() if isinstance(line, Hook)}
    names = [name for name, function in vars(specifications).items() if hasattr(function, "hami_spec")]
    for name in names:
        if name not in lines:
            raise TypeError(f"hook {name} has no line: add one to hami_core/plugins/hooks.py")
    for name, line in lines.items():
        if name not in names or line.spec is not getattr(specifications, name):
            raise TypeError(f"hook {name} of hami_core/plugins/hooks.py has no specification of this name; write one")
    return {name: lines[name] for name in names}


HOOKS: Final = table(specs, StartHooks, SchedulerHooks, NodeHooks)
"""Every hook of the contract by name, in the order of the specifications."""
START: Final = frozenset(HOOKS.keys() & vars(StartHooks).keys())
"""Names of hooks that are called at loading; they cannot be wrapped."""
NODE: Final = frozenset(HOOKS.keys() & vars(NodeHooks).keys())
"""Names of hooks that only the agent calls."""
