"""What a running process tells: logs, metrics, traces."""
