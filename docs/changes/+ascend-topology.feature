**Ascend.** Several NPUs of a 910C are given as whole modules, and those of other 910 chips come from one network where
possible.
