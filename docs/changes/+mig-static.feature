**NVIDIA.** `migStrategy` offers MIG instances that an administrator made: `single` through the scheduler, also with
different profiles on one node, and `mixed` as resources such as `nvidia.com/mig-1g.10gb`, to pods of any scheduler.
`HAMI_NVIDIA_PREFERRED_ALLOCATION` and `enablegetpreferredallocation` say which free slots the kubelet takes first.
