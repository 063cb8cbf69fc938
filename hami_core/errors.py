"""All exceptions of this project. Each class says who is at fault; each message names object, field and fix.

A *refusal*, such as a card that does not fit or a quota that is used up, is not an exception but a value:
`hami_core.model.Reason`. Exceptions are for input that cannot be understood and for parts that failed.
"""

from __future__ import annotations


class HamiError(Exception):
    """Base of all exceptions that this project raises on purpose.

    Example:
        >>> issubclass(RequestError, HamiError)
        True
    """


class ConfigError(HamiError):
    """A setting or the device-config is wrong: the administrator's error.

    Args:
        where: Setting, file or key, such as ``device-config.yaml: nvidia.deviceSplitCount``.
        problem: What is wrong with it.
        fix: What to write instead; may be empty.

    Example:
        >>> print(ConfigError("device-config.yaml: acme.slots", "is 0", "write 1 or more"))
        device-config.yaml: acme.slots: is 0 (write 1 or more)
    """

    def __init__(self, where: str, problem: str, fix: str = "") -> None:
        super().__init__(f"{where}: {problem}" + (f" ({fix})" if fix else ""))
        self.where = where
        self.problem = problem
        self.fix = fix


class RequestError(HamiError):
    """A request cannot be granted as it is written: the user's error.

    Args:
        subject: The object at fault, such as ``container trainer``.
        field: The field or key, such as ``nvidia.com/gpumem``.
        problem: The value, and what is wrong with it.
        fix: What to write instead; may be empty.

    Example:
        >>> print(RequestError("container main", "acme.example/npu", "3 is odd", "ask for 2 or 4"))
        container main: acme.example/npu: 3 is odd (ask for 2 or 4)
    """

    def __init__(self, subject: str, field: str, problem: str, fix: str = "") -> None:
        super().__init__(f"{subject}: {field}: {problem}" + (f" ({fix})" if fix else ""))
        self.subject = subject
        self.field = field
        self.problem = problem
        self.fix = fix


class WireError(HamiError):
    """Text or bytes from another program do not follow their format.

    Args:
        key: Annotation key, file name or payload with the value.
        position: Byte offset or element index of the fault; -1: the value as a whole is wrong.
        problem: What is wrong there, in HAMi's words if a peer may look for them.

    Example:
        >>> print(WireError("hami.io/node-acme-register", 17, "expected a number"))
        hami.io/node-acme-register at 17: expected a number
    """

    def __init__(self, key: str, position: int, problem: str) -> None:
        at = f" at {position}" if position >= 0 else ""
        super().__init__(f"{key}{at}: {problem}" if key else f"{problem}{at}")
        self.key = key
        self.position = position
        self.problem = problem


class VendorError(HamiError):
    """A vendor plugin raised, returned the wrong type or could not be loaded.

    Args:
        vendor: Entry-point name, such as ``nvidia``.
        distribution: Distribution of the plugin, with version, such as ``hami-nvidia 0.1.0``.
        hook: The hook that failed; empty: loading failed.
        problem: What happened, with the arguments if a hook was called.

    Example:
        >>> print(VendorError("acme", "hami-acme 0.1.0", "allocate", "answered None"))
        vendor acme (hami-acme 0.1.0) in allocate: answered None
    """

    def __init__(self, vendor: str, distribution: str, hook: str, problem: str) -> None:
        at = f" in {hook}" if hook else ""
        super().__init__(f"vendor {vendor} ({distribution or 'unknown distribution'}){at}: {problem}")
        self.vendor = vendor
        self.distribution = distribution
        self.hook = hook
        self.problem = problem


class DeviceError(HamiError):
    """A device, its driver or a tool of the driver failed.

    Example:
        >>> print(DeviceError("/sys/class/acme does not exist: is the driver loaded?"))
        /sys/class/acme does not exist: is the driver loaded?
    """


class KubeError(HamiError):
    """The Kubernetes API refused a call or could not be reached.

    Args:
        verb: The call, such as ``bind pods default/a``.
        status: HTTP status; 0: no answer came.
        problem: The message of the server or of the transport.
        retryable: Whether the same call may succeed later.

    Example:
        >>> print(KubeError("bind pods default/one", 409, "conflict", retryable=True))
        bind pods default/one: 409: conflict
    """

    def __init__(self, verb: str, status: int, problem: str, *, retryable: bool) -> None:
        super().__init__(f"{verb}: {status or 'no answer'}: {problem}")
        self.verb = verb
        self.status = status
        self.problem = problem
        self.retryable = retryable
