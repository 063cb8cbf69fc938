"""Vectors that no module here runs yet, each with the work that it waits for.

A path covers everything below it. test_claims.py fails if a part in this table is run.
"""

from __future__ import annotations

_VOLCANO = "Volcano as source of allocations"

LATER: dict[str, str] = {
    "health_nvidia": "not planned: HAMi's handshake is not used (docs/adr/0018)",
    "vendors/mig.volcanoKnownMigGeometries": _VOLCANO,
    "vendors/volcano": _VOLCANO,
}
