"""The kubelet's gRPC interfaces, generated from the .proto files here; README.md says how."""
