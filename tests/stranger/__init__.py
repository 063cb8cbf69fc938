"""A stranger's vendor, from an empty folder to a card in a container."""
