"""`hami demo`: real manifests and programs run on a whole cluster on one machine, and their limits are measured."""
