"""Real servers of npm and PyPI, each asked directly and through toolcrib; every difference must have a reason.

Runs with the project's own interpreter (``python -m bench.foreign``), which has Node.js and a schema validator.
"""
