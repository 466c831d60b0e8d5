"""``python -m bench FIGURE``: reads the options, enters the load generator's environment, measures."""

import os
import sys
from pathlib import Path

from bench import environments, options


def enter_driver() -> None:
    """Replace this process by the same command under the load generator's interpreter."""
    python = environments.ready("driver") / "bin" / "python"
    os.environ[environments.PROJECT_PYTHON] = sys.executable
    os.execv(python, [str(python), "-m", "bench", *sys.argv[1:]])


def main() -> int:
    chosen = options.parse(sys.argv[1:])
    if Path(sys.prefix) != environments.place("driver"):
        enter_driver()
    from bench.run import run  # its imports exist only in the load generator's environment

    return run(chosen)


if __name__ == "__main__":
    raise SystemExit(main())
