The chart makes a Role, `hami-scheduler-view`, with which people read the scheduler and the agents through the API server. Values: `viewRole.enabled`, `viewRole.subjects`.
