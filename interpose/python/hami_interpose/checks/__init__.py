"""What `python -m hami_interpose check` looks at, one module for each kind of evidence."""
