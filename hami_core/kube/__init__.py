"""The Kubernetes edge: one Protocol (`port`), partial objects (`objects`), an informer, leases, patches, events."""
