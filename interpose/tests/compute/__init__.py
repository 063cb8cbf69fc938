"""Compute in time: shares of a device, judged by the simulated device's own books."""
