**Demo.** The extra `hami[demo]` has all packages that `hami demo` needs. What is missing on the machine (a package, a compiler, a driver, rights on `--dir`) is named before anything starts.
