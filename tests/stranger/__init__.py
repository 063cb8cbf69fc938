"""A third party's vendor package, from an empty folder to a card in a container."""
