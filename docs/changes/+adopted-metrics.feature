**Agent.** With `devicePlugin.mode: adopt` the metrics include containers that HAMi's device plugin served, so dashboards have no gap during a migration.
