"""Run all tests in shares, side by side: most of them wait for programs. ``python tests/fleet/shares.py``.

The last share is whatever the others leave, so no test is in none. What a share prints is shown when it ends.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARES = (
    ("tests/doors/cli", "tests/knowledge"),
    (
        "tests/doors/rest",
        "tests/doors/web",
        "tests/doors/http",
        "tests/doors/views",
        "tests/browser",
        "tests/adapters",
        "tests/platform",
        "tests/workspace",
        "tests/contracts",
        "tests/stores",
    ),
)


def arguments() -> list[list[str]]:
    """What pytest is given for each share."""
    elsewhere = [f"--ignore={folder}" for share in SHARES for folder in share]
    return [*(list(share) for share in SHARES), ["tests", *elsewhere]]


def main() -> int:
    """The worst exit code of all shares."""
    began = time.monotonic()
    running = []
    for share in arguments():
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *share]
        running.append((share[0], subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output), output))
    codes = []
    while running:
        ended = next((one for one in running if one[1].poll() is not None), None)
        if ended is None:
            time.sleep(0.2)
            continue
        running.remove(ended)
        name, process, output = ended
        output.seek(0)
        print(f"--- {name} and others, after {time.monotonic() - began:.0f} s", flush=True)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
        codes.append(process.returncode)
    print(f"all shares: {'passed' if not any(codes) else 'FAILED'} in {time.monotonic() - began:.0f} s")
    return max(map(abs, codes))


if __name__ == "__main__":
    raise SystemExit(main())
