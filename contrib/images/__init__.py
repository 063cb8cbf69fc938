"""Container images without a container engine or a registry: OCI archives from wheels and Debian packages.

``python contrib/images/build.py --help`` lists the options. docs/how-to/images.md describes the result.
"""
