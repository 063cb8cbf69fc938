**Metrics.** The cluster dashboard has a variable *Model*, which chooses the cards of one vendor or chip.
