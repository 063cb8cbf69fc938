"""The command line: ``hami`` and ``kubectl hami``. Each command has its own module, loaded when it is called."""
