The metric `hami_device_problem` and the events `DeviceUnhealthy` and `DeviceHealthy` tell why a device is not offered. A
cordon that names an unknown device gets the event `CordonUnknownDevice`.
