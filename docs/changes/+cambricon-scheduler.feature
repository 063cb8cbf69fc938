**Cambricon.** `cambricon.com/use-mlutype` and `nouse-mlutype` choose MLUs by model. On nodes with Cambricon's device plugin,
pods that this plugin can't serve are refused with the reason; before, the kubelet rejected them or started them without an MLU.
