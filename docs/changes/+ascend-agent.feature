**Ascend.** `hami agent --vendor ascend` serves Ascend nodes: discovery, slots, hard and soft split, health, metrics, and vNPUs that survive crashes. See *The agent on Ascend nodes*.
