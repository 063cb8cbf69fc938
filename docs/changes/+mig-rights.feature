**NVIDIA, chart.** The agent may make MIG instances with the capability `SYS_ADMIN` instead of `privileged`. A node configuration
with `operatingmode: mig` and an agent without that right gives a warning.
