"""SBOM of an image as an SPDX 2.3 document."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNKNOWN: Final = "NOASSERTION"


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """One package in an image.

    Attributes:
        kind: Type of the package URL: ``deb``, ``pypi``, ``golang`` or ``generic``.
        name: Name that the distributor uses.
        version: Version of the package.
        sha256: Checksum of the file that contained it: the .deb, the wheel or the program.
        license: SPDX expression; empty: not known.
        file: Name of the file that contained it.
    """

    kind: str
    name: str
    version: str
    sha256: str
    license: str = ""
    file: str = ""

    def as_dict(self) -> dict[str, str]:
        """Fields by name."""
        return asdict(self)

    @property
    def purl(self) -> str:
        """Package URL."""
        middle = "debian/" if self.kind == "deb" else ""
        name = self.name.lower().replace("_", "-") if self.kind == "pypi" else self.name
        return f"pkg:{self.kind}/{middle}{name}@{self.version.replace('+', '%2B').replace(':', '%3A')}"


def document(image: str, digest: str, components: Iterable[Component]) -> bytes:
    """The SPDX document of one image. The same image gives the same document."""
    found = sorted(set(components))
    packages = [_image(image, digest), *(_package(c) for c in found)]
    relations = [_relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")]
    relations += [_relation("SPDXRef-image", "CONTAINS", _id(c)) for c in found]
    content = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image,
        "documentNamespace": f"urn:oci:{digest}",
        # The digest identifies the image. A real time would make two runs differ.
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: hami-images"]},
        "packages": packages,
        "relationships": relations,
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _image(image: str, digest: str) -> dict[str, Any]:
    name, _, tag = image.rpartition(":")
    return {
        "SPDXID": "SPDXRef-image",
        "name": name,
        "versionInfo": tag,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}],
    }


def _package(component: Component) -> dict[str, Any]:
    return {
        "SPDXID": _id(component),
        "name": component.name,
        "versionInfo": component.version,
        "packageFileName": component.file,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": component.license or _UNKNOWN,
        "copyrightText": _UNKNOWN,
        "checksums": [{"algorithm": "SHA256", "checksumValue": component.sha256}],
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": component.purl,
            }
        ],
    }


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _id(component: Component) -> str:
    text = f"{component.kind}-{component.name}-{component.version}"
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)
