"""One file per command: ``add_arguments`` says what it takes, ``run`` does it and returns the exit code."""
