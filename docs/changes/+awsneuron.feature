**AWS Neuron.** The vendor `awsneuron` gives whole devices, which are neighbours, and single cores, on nodes with AWS's Neuron
device plugin. Each node's number of cores counts, and id annotations also apply to several devices.
