"""The list of nodes a Filter is asked about, as names or as the raw JSON of the extender's request."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hami_core.errors import WireError

_DECODER = msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True)
class RawNames:
    """``NodeNames`` as the bytes kube-scheduler sent: equal bytes mean equal names, so nothing needs decoding twice."""

    data: bytes

    def decode(self) -> list[str]:
        """The names.

        Raises:
            WireError: It is no JSON array of strings.
        """
        try:
            return _DECODER.decode(self.data)
        except msgspec.DecodeError as error:
            raise WireError("NodeNames", -1, str(error)) from None
