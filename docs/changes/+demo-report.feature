**Demo.** A program in your own manifest is measured, too, if it prints a report (`hami demo --help`). A container without one is named, with its last lines; so is one that failed or is restarted.
