"""HAMi in Python: share one accelerator safely between many pods."""
