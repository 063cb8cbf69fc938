"""The bed: a real Kubernetes cluster on one machine, for tests. See `tests.e2e.bed.bed.Bed`."""

from __future__ import annotations

from tests.e2e.bed.bed import Bed
from tests.e2e.bed.errors import ApiRefused, BedError, MissingTool, NotInTime
from tests.e2e.bed.state import Node
from tests.e2e.bed.tools import Tools, find

__all__ = ["ApiRefused", "Bed", "BedError", "MissingTool", "Node", "NotInTime", "Tools", "find"]
