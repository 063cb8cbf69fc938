"""What Kubernetes allows as annotations and labels, checked before a Binding is sent.

The API server does not check a Binding's annotations, but every later update of the pod: one invalid key and the
kubelet can't write its status any more. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

TOTAL_LIMIT: Final = 256 * 1024
"""Bytes all annotations of an object may have, keys and values."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)


def is_qualified_name(key: str) -> bool:
    """Whether a text may be an annotation or label key: ``[prefix/]name``."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether a text may be a label's value (at most 63 characters)."""
    return value == "" or _NAME.fullmatch(value) is not None


def check_annotations(present: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Check annotations about to be written.

    Args:
        present: What the object has.
        added: What is added.

    Raises:
        WireError: A key is invalid, or everything together is too long.
    """
    for key, value in added.items():
        # Kubernetes compares keys without regard to case when it validates them.
        if not is_qualified_name(key.lower()):
            raise WireError("annotations", -1, f"{key!r} is not a valid annotation key")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WireError(key, error.start, "not valid Unicode") from None
    total = sum(len(k.encode()) + len(v.encode()) for k, v in (dict(present) | dict(added)).items())
    if total > TOTAL_LIMIT:
        problem = f"the pod's annotations would have {total} bytes, Kubernetes allows {TOTAL_LIMIT}"
        raise WireError("annotations", -1, problem)
