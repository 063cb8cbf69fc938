"""The scheduler process: kube-scheduler's extender verbs and the admission webhook. `process.run` is the door."""
