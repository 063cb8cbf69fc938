"""Formats of everything that crosses a process boundary: decoded strictly, encoded byte for byte as HAMi v2.10 does.

All functions are pure: no I/O, no clock, no globals. Decoders raise only two errors. `hami_core.errors.WireError`, with
key and position, is for text that another program wrote. `hami_core.errors.RequestError`, with object, field and fix,
is for text that a user wrote.
"""
