"""One file per group of commands: ``add_<verb>_arguments`` says what one takes, ``run_<verb>`` does it."""
