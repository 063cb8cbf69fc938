"""Beside the framework: the template of a vendor, examples, the chart, and the tools that make images of it all."""
