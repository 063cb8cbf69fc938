**Embedded cluster.** kubectl works on it without flags: `apply` (also server-side), `create`, `get all`, `exec`, `cp`, `drain`, and
Deployments and Jobs with their controllers. A pod that requests no devices runs too.
