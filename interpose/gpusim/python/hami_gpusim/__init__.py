"""Simulated NVIDIA GPUs: make a state directory, run programs on it, watch it, break it.

The simulated driver (``libcuda.so.1`` and ``libnvidia-ml.so.1``) finds its devices through the environment variable
``HAMI_SIM_STATE``, the directory that `create` makes. All processes that name one directory share its devices::

    create(directory, "h100x2")
    with State(directory) as state:
        run(["python", "train.py"], state=directory)
        print(state.devices[0].memory_used)
        state.inject(Fault("cuMemAlloc_v2", error=2, device=1, count=3))

It is for tests and demonstrations. Nothing that limits a container on a real node needs this package.
"""

from hami_gpusim._profiles import ProfileError, models
from hami_gpusim._run import LibraryMissingError, environment, library_dir, run
from hami_gpusim._state import STEP_NS, Device, DeviceTime, Fault, Process, State, StateError, create
from hami_gpusim._version import __version__

__all__ = [
    "STEP_NS",
    "Device",
    "DeviceTime",
    "Fault",
    "LibraryMissingError",
    "Process",
    "ProfileError",
    "State",
    "StateError",
    "__version__",
    "create",
    "environment",
    "library_dir",
    "models",
    "run",
]
