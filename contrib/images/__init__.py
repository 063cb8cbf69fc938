"""Container images without a container engine or a registry: OCI archives from wheels and Debian packages.

``python contrib/images/build.py --help`` is the way in; docs/how-to/images.md says what comes out.
"""
