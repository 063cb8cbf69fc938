"""One module per subject of the conformance kit."""
