`hami version` prints the versions of hami, the hook API, Python and the installed plugins; `--json` prints them for programs.
