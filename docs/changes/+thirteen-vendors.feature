The chart serves all thirteen vendors of HAMi, each by `devices.<vendor>.enabled`, with HAMi's defaults. Resource names,
chips, `devices.mthreads.memoryPerCard` and `devices.hygon.memoryFactor` of HAMi's main branch are now values, and a
renamed resource is managed without a change of `customresources`. `devices.ascend.runtimeClassName` and
`scheduler.overwriteEnv` now reach Ascend's chips.
