"""What a confined program may read of its own accord: what belongs to it, never somebody's home."""

from pathlib import Path

import pytest

from toolcrib.isolate.plan import HARMLESS, KERNEL, SYSTEM, find_program, is_too_wide, program_places


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return home


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def places(program: Path, home: Path, path: str = "/usr/bin:/bin") -> set[Path]:
    return set(program_places(program, path, home))


def test_a_program_sees_its_directory_and_its_libraries(home):
    """``~/node/bin/node`` needs ``~/node/lib``."""
    program = make_program(home / "node" / "bin" / "node")

    found = places(program, home)

    assert {home / "node" / "bin", home / "node" / "lib"} <= found
    assert home / "node" not in found


def test_a_program_that_lies_in_a_home_sees_itself_and_not_the_home(home):
    """Nor anything above."""
    program = make_program(home / "server")

    assert program in places(program, home)
    assert not {home, *home.parents} & places(program, home)


def test_of_the_local_directory_of_a_home_only_programs_and_libraries_are_seen(home):
    """``~/.local/share`` holds keyrings."""
    found = places(make_program(home / ".local" / "bin" / "tool"), home)

    assert home / ".local" / "bin" in found
    assert not any((home / ".local" / "share").is_relative_to(place) for place in found)


def test_a_virtual_environment_is_seen_as_a_whole(home):
    """And so is what its interpreter is a link to."""
    real = make_program(home / "python" / "bin" / "python3.11", "binary")
    bin_ = home / "venv" / "bin"
    bin_.mkdir(parents=True)
    (home / "venv" / "pyvenv.cfg").touch()
    (bin_ / "python").symlink_to(real)

    assert {home / "venv", home / "python" / "lib"} <= places(bin_ / "python", home)


def test_whoever_runs_a_script_is_found_by_its_first_line(home):
    """Also through ``env``, with options."""
    interpreter = make_program(home / "ruby" / "bin" / "ruby")
    script = make_program(home / "scripts" / "server", "#!/usr/bin/env -S ruby -w\n")

    found = places(script, home, path=str(interpreter.parent))

    assert home / "ruby" / "lib" in found


def test_a_command_is_found_on_the_path_or_from_its_directory(home):
    """As the shell would."""
    program = make_program(home / "bin" / "tool")

    assert find_program("tool", str(home / "bin"), Path("/")) == program
    assert find_program("./bin/tool", "", home) == program
    assert find_program("tool", "/nowhere", home) is None


def test_the_defaults_hold_nothing_of_anybody():
    """Neither all of /etc nor of /proc, no home, no /tmp, no /run."""
    everything = {Path(place) for place in (*SYSTEM, *HARMLESS, *KERNEL)}
    private = map(Path, ("/etc/shadow", "/etc/ssl/private", "/proc/1/environ", "/root", "/home/a", "/tmp/a", "/run/a"))

    assert not [path for path in private for place in everything if path.is_relative_to(place)]


def test_a_directory_with_a_home_in_it_is_too_wide():
    """The home itself included."""
    home = Path("/home/me")

    assert [is_too_wide(Path(path), home) for path in ("/", "/home", "/home/me", "/home/me/work", "/srv")] == [
        True, True, True, False, False,
    ]  # fmt: skip
