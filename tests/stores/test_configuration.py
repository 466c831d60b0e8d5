"""Who may read a configuration that is written."""

import stat
from pathlib import Path

import pytest

from toolcrib.stores.lockfile import write_config

PLAIN = '[servers.docs]\nurl = "https://docs.example/mcp"\n'
SECRETS = (
    f'{PLAIN}headers = {{Authorization = "Bearer abc"}}\n',
    '[servers.docs]\nurl = "https://docs.example/mcp?api_key=abc"\n',
    '[servers.docs]\ncommand = "x"\nargs = ["--token", "abc"]\n',
    '[servers.docs]\ncommand = "x"\nenv = {API_KEY = "abc"}\n',
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("text", SECRETS)
def test_a_file_that_comes_to_hold_a_secret_is_for_its_owner_alone(tmp_path, text):
    """Whether it is new or was open to everybody before."""
    new, old = tmp_path / "new.toml", tmp_path / "toolcrib.toml"
    old.write_text(PLAIN)
    old.chmod(0o664)

    write_config(new, "", text)
    write_config(old, PLAIN, text)

    assert (mode(new), mode(old)) == (0o600, 0o600)
    assert old.read_text() == text


def test_without_a_new_secret_a_file_stays_as_open_as_it_was(tmp_path):
    """References are no secrets; and whoever opened a file that holds one has decided so."""
    reference, opened = tmp_path / "reference.toml", tmp_path / "opened.toml"
    opened.write_text(SECRETS[0])
    opened.chmod(0o664)

    write_config(reference, "", f'{PLAIN}headers = {{Authorization = "Bearer ${{TOKEN}}"}}\n')
    write_config(opened, SECRETS[0], SECRETS[0] + 'description = "more"\n')

    assert (mode(reference) & 0o044, mode(opened)) == (0o044, 0o664)
