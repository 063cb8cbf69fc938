"""What programs see: NVML's memory figures must be the slice's, and what is in use the region's counter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hami_interpose._show import mib
from hami_interpose.checks.finding import not_applicable, ok, wrong
from hami_interpose.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_interpose.checks.finding import Finding
    from hami_interpose.limits import DeviceLimit, Limits
    from hami_interpose.region import DeviceUse, Region

TIMEOUT_S: Final = 60
_CHECK: Final = "nvml"
_SLICE: Final = "nvml.total"
_USED: Final = "nvml.used"
_NOT_HELD: Final = "libvgpu.so is not in the way: see preload.file and library.loaded"


def ask(limits: Limits) -> dict[str, Any]:
    """Asks NVML in a child, which is preloaded as every program here. `failed` says what went wrong with it."""
    program = Path(__file__).with_name("ask_nvml.py")
    command = [sys.executable, "-P", str(program), *(device.uuid for device in limits.devices)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=True, stdin=subprocess.DEVNULL)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {TIMEOUT_S} s"}
    except subprocess.CalledProcessError as error:
        how = f"signal {-error.returncode}" if error.returncode < 0 else f"exit status {error.returncode}"
        return {"failed": f"ended by {how}: {error.stderr.decode(errors='replace').strip()[-200:]}"}
    except ValueError as error:
        return {"failed": f"no JSON: {error}"}
    return found if isinstance(found, dict) else {"failed": f"answered {found!r}"}


def check(limits: Limits, before: Region, answer: dict[str, Any], after: Region) -> Iterator[Finding]:
    """Compares NVML's answer with the limits, and with the region as it was before and after asking."""
    if "missing" in answer:
        yield not_applicable(_CHECK, f"NVML cannot be loaded: {answer['missing']}")
    elif "devices" not in answer:
        call = answer.get("failed") or f"{answer.get('call')} answers {answer.get('status')}"
        fix = "NVML has to work in this container: see the driver's libraries and device nodes"
        yield wrong(_CHECK, f"asking NVML: {call}", fix)
    elif limits.mode != Mode.ENFORCE:
        yield not_applicable(_CHECK, f"in mode {limits.mode} NVML shows the whole device")
    else:
        for index, device in enumerate(limits.devices):
            uses = [region.devices[index] for region in (before, after) if index < len(region.devices)]
            yield from _device(device, uses, answer["devices"].get(device.uuid, {}))


def _device(device: DeviceLimit, uses: list[DeviceUse], answer: dict[str, Any]) -> Iterator[Finding]:
    if "total" not in answer:
        found = f"{device.uuid}: {answer.get('call')} answers {answer.get('status')}"
        yield wrong(_SLICE, found, "the card is not visible here, or does not answer: see `hami doctor` on the node")
        return
    if not device.memory_bytes:
        yield not_applicable(_SLICE, f"{device.uuid} has no memory limit: NVML shows the whole device")
        return
    yield _total(device, int(answer["total"]))
    yield _used(device, uses, int(answer["used"]))


def _total(device: DeviceLimit, total: int) -> Finding:
    shown = f"{device.uuid}: NVML shows {mib(total)} MiB, the limit is {mib(device.memory_bytes)} MiB"
    if total == device.memory_bytes:
        return ok(_SLICE, shown)
    if device.physical_bytes <= total < device.memory_bytes:
        return ok(_SLICE, f"{shown} with scaling: the card has no more")
    return wrong(_SLICE, shown, _NOT_HELD)


def _used(device: DeviceLimit, uses: list[DeviceUse], used: int) -> Finding:
    counted = [use.used_bytes for use in uses]
    if not counted:
        return not_applicable(_USED, f"{device.uuid}: the region does not have it")
    reserve = max(use.context_bytes for use in uses)
    said = f"{device.uuid}: NVML shows {mib(used)} MiB in use, the region counts {mib(counted[-1])} MiB"
    if min(counted) - reserve <= used <= max(counted) + reserve:
        return ok(_USED, said)
    return wrong(_USED, said, _NOT_HELD)
