"""The version; a test holds it equal to hami-core's. A distribution of its own has to build without its neighbours."""

__version__ = "0.1.0"
