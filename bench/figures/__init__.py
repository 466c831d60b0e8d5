"""One file per figure: ``measure(options)`` gives the report."""
