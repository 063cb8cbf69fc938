**Scheduler.** Filter answers pods of a known shape from kept verdicts where only a vendor's hooks can decide: 1,000
nodes with 77 of Kunlunxin take 0.3 ms instead of 24 ms. Hooks are asked again about nodes that changed.
