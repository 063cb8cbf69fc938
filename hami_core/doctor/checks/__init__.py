"""The checks: pure functions of facts. `table` lists them in the order they are shown."""
