"""``python -m hami_core`` is ``hami``."""

from hami_core.cli.main import main

if __name__ == "__main__":
    main()
