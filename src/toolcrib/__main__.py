"""``python -m toolcrib``."""

import sys


def main() -> int:
    """Run the command line."""
    from toolcrib.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
