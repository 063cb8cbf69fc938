**Vendors.** `hami plugins new NAME` writes a package for a new vendor, with tests that pass and two simulated devices. It needs the extra `hami[testing]`.
