**Chart.** `helm upgrade` over a release of HAMi stops and names the steps of the migration. Both charts use the same names, so helm replaced HAMi's parts in place.
