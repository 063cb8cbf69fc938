"""The version; in step with every other distribution of this repository."""

__version__ = "0.1.0"
