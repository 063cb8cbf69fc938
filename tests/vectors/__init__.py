"""Conformance vectors of HAMi v2.10, run against our public functions."""
