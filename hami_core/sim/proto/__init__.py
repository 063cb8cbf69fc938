"""Messages of Kubernetes' API in protobuf, generated; README.md says how."""
