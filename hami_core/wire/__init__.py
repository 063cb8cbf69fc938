"""Formats, byte for byte: everything that crosses a process boundary, decoded strictly and encoded as HAMi v2.10 does.

Pure: no I/O, no clock, no globals. Decoders raise `hami_core.errors.WireError` (key and position) for text that other
programs wrote and `hami_core.errors.RequestError` (object, field and fix) for text a user wrote, and nothing else.
"""
