"""Access to the Kubernetes API: its Protocol (`port`), partial objects, an informer, Leases, patches, events."""
