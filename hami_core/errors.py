"""The error tree: who is at fault decides the class, every message names object, field and fix.

A *refusal* (a card that does not fit, a quota that is used up) is not an error but a value,
`hami_core.model.Reason`. Exceptions are for input that cannot be understood and for parts that broke.
"""

from __future__ import annotations


class HamiError(Exception):
    """Base of every error this project raises on purpose.

    Example:
        >>> issubclass(RequestError, HamiError)
        True
    """


class ConfigError(HamiError):
    """The administrator's settings or device-config are wrong.

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
    """The user asked for something that cannot be granted as written.

    Args:
        subject: The object at fault, such as ``container trainer``.
        field: The field or key, such as ``nvidia.com/gpumem``.
        problem: What is wrong with the value, with the value.
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
    """Text or bytes that came over the wire do not follow their format.

    Args:
        key: Annotation key, file name or payload that held the value.
        position: Byte offset or element index of the fault; -1 when the value as a whole is at fault.
        problem: What is wrong there. HAMi's own wording where a peer may look for it.

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
        distribution: Distribution that supplied it, with version, such as ``hami-nvidia 0.1.0``.
        hook: Hook that failed; empty when loading failed.
        problem: What happened, with the arguments where a hook was called.

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
    """A device, its driver or its node-side tooling failed.

    Example:
        >>> print(DeviceError("/sys/class/acme does not exist: is the driver loaded?"))
        /sys/class/acme does not exist: is the driver loaded?
    """


class KubeError(HamiError):
    """The Kubernetes API refused a call or could not be reached.

    Args:
        verb: What was tried, such as ``bind pods default/a``.
        status: HTTP status; 0 when no answer came.
        problem: The server's or the transport's words.
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
