"""The main job: a whole cluster on one machine, real manifests, real client programs, measured limits."""
