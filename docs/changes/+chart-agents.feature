**Chart.** `devices.ascend.agent.enabled` and `devices.cambricon.agent.enabled` run our agent for these vendors on the nodes with the label `ascend: "on"` or `mlu: "on"`.
