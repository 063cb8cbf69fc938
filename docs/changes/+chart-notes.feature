**Chart.** Notes show the next commands, from the label of the nodes to a first pod, and warn of `failurePolicy: Ignore`. `devicePlugin.nvidiaNodeSelector: null` no longer stops rendering.
