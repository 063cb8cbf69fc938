**Placement.** With `--mutex-keeps-devices` (chart `scheduler.mutexKeepsDevices`), a pod with policy `mutex` keeps later
pods off its devices while it is alone there. By default they may join it, as in HAMi.
