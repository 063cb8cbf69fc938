**Demo.** `hami demo --manifests` takes Deployments and Jobs, and judges the pods that they make.
