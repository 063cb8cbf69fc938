"""The memory limit, exactly: the last block that fits, and the next that does not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY, NOT_INITIALIZED, NOT_SUPPORTED = 2, 3, 801
DOORS = [("-DDIRECT",), (), ("-DGET_PROC_ADDRESS",)]
DRIVERS = {  # kinds of libcuda.so, libcuda.so.1, libcuda.so.1.1, … and of NVML's; what a program opens in turn
    "one file": (),
    "forwards when called": ("- lazy copy",),
    "forwards as loaded": ("- eager copy",),
    "forwards twice when called": ("- lazy lazy copy",),
    "forwards twice as loaded": ("- eager eager copy",),
    "and then the inner one": ("- lazy copy", "{0}.1 {0}.1.1"),
    "the inner one and then it": ("- eager copy", "{0}.1.1 {0}.1"),
    "two copies": ("copy copy", "{0}.1 {0}"),
    "another copy alone": ("copy copy", "{0}"),
    "two that forward to one": ("lazy eager copy", "{0}.1 {0}"),
    "one that forwards to the usual": ("eager copy", "{0}"),
    "no usual one": ("other", "{0}"),
    "no usual one, forwards": ("eager other", "{0}"),
    "the usual one and another": ("other copy", "{0}.1 {0}"),
    "in a namespace of its own": ("- copy", "+{0}.1"),
    "another in a namespace of its own": ("other copy", "{0}.1 +{0}"),
    "another and the usual one": ("other copy", "{0} {0}.1"),
}


PRELOADED = ["{shim} {ours}", "{ours} {shim}"]


def refuse_what_does_not_fit(container, program):
    seen = container.json(program, 2)
    used = container.region().devices[0]
    assert seen["device_total"] == seen["total"] == seen["nvml_total"] == 4000 * MIB
    reserve = 4000 * MIB - seen["free"]
    assert reserve == used.context_bytes > 0
    assert seen["count"] == seen["free"] // (2 * MIB)
    assert seen["status"] == seen["again_status"] == OUT_OF_MEMORY
    assert seen["again"] == seen["count"]
    assert seen["left"] == seen["free"] % (2 * MIB)
    assert seen["nvml_used"] == 4000 * MIB - seen["left"]
    assert used.denied == 2
    assert used.peak_bytes <= 4000 * MIB


@pytest.mark.parametrize("addresses", ["", "1"], ids=["exported", "private"])
@pytest.mark.parametrize("door", DOORS, ids=["direct", "dlsym", "cuGetProcAddress"])
@pytest.mark.parametrize("files", DRIVERS.values(), ids=DRIVERS)
def test_last_block_fits_and_next_is_refused(make_container, programs, lay_out_drivers, door, files, addresses):
    container = make_container(4000)
    container.variables["HAMI_SIM_PRIVATE_ADDRESSES"] = addresses
    found = lay_out_drivers(container, *files) if files else []
    linked = ["-Wl,--as-needed", *found] if door == DOORS[0] else []
    refuse_what_does_not_fit(container, programs("fill", *door, *linked))


@pytest.mark.parametrize("door", DOORS[1:], ids=["dlsym", "cuGetProcAddress"])
def test_driver_that_cannot_be_bound_is_denied(make_container, programs, lay_out_drivers, door):
    """It lies in a namespace of the loader's that is not ours, and there is no other."""
    container = make_container(4000)
    lay_out_drivers(container, "other", "+{0}")
    process = container.start(programs("fill", *door))
    assert process.communicate(timeout=60)[1].endswith(f": {NOT_SUPPORTED}\n")


@pytest.mark.parametrize("preloaded", PRELOADED, ids=["before", "behind"])
@pytest.mark.parametrize("door", DOORS, ids=["direct", "dlsym", "cuGetProcAddress"])
@pytest.mark.parametrize("kind", ["lazy", "eager"])
def test_limit_holds_beside_a_preloaded_forwarder(make_container, programs, lay_out_drivers, door, kind, preloaded):
    container = make_container(4000)
    shims = lay_out_drivers(container, f"{kind} copy", "{0}")
    environment = container.environment()
    others, _, ours = environment.get("LD_PRELOAD", environment.get("GUEST_PRELOAD", "")).rpartition(":")
    container.variables["LD_PRELOAD"] = f"{others} {preloaded.format(shim=' '.join(shims), ours=ours)}"
    container.variables |= {"CUDA_FILES": "libcuda.so.1", "NVML_FILES": "libnvidia-ml.so.1"}
    refuse_what_does_not_fit(container, programs("fill", *door))


def test_library_linked_with_a_driver_not_in_use_is_denied(make_container, programs, lay_out_drivers):
    """It has started its own driver, and our wrappers call libcuda.so.1."""
    container = make_container(4000)
    linked = ["-DDIRECT", "-Wl,--as-needed", *lay_out_drivers(container, "other copy", "{0}")]
    process = container.start(programs("host"), "plain", programs("plugin", "-shared", "-fPIC", "-DCONTEXT", *linked))
    assert process.communicate(timeout=60)[1] == f"cuCtxCreate_v2(&context, 0, 0): {NOT_INITIALIZED}\n"
