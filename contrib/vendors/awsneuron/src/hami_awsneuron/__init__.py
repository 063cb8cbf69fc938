"""AWS Neuron: devices and their cores, out of a node's capacity and the label with its instance type."""

from __future__ import annotations

from hami_awsneuron.config import AwsNeuronConfig
from hami_awsneuron.plugin import AwsNeuron

__all__ = ["AwsNeuron", "AwsNeuronConfig"]
