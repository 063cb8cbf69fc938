"""All settings, as typed models. A flag wins over an environment variable, which wins over a file and a default.

`SchedulerSettings` and `AgentSettings` are the settings of the two processes; `DeviceConfig` is HAMi's
device-config.yaml. The reference page and ``--help`` are generated from the models.
"""

from __future__ import annotations

from hami_core.settings.agent import AgentSettings
from hami_core.settings.device import DeviceConfig, load_device_config
from hami_core.settings.scheduler import SchedulerSettings

__all__ = ["AgentSettings", "DeviceConfig", "SchedulerSettings", "load_device_config"]
