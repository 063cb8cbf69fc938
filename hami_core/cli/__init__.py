"""The command line: ``hami`` and ``kubectl hami``. One file a command, loaded when it is called."""
