"""What is kept is sealed: to its name, with a key that only its owner has."""

import os
import stat
from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.credentials.oauth import OAuthClient
from toolcrib.credentials.vault import KEY_NAME, VARIABLE, Vault, VaultKey
from toolcrib.stores.credentials import FileCredentials
from toolcrib.stores.paths import state_directory

SECRET = OAuthClient("me", "the-secret-of-all")
NO_RING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def vault_of(home: Path, **env: str) -> Vault:
    variables = {"HOME": str(home), **NO_RING, **env}
    return Vault(FileCredentials(state_directory(variables)), VaultKey(variables))


async def test_what_was_kept_is_found_again_by_another_process_and_stands_in_no_file(tmp_path: Path):
    await vault_of(tmp_path).put("client:x", SECRET)
    files = {path.name: path for path in tmp_path.rglob("*") if path.is_file()}

    assert await vault_of(tmp_path).get("client:x", OAuthClient) == SECRET
    assert not [path for path in files.values() if b"the-secret" in path.read_bytes()]
    assert stat.S_IMODE(files[KEY_NAME].stat().st_mode) == 0o600


async def test_an_entry_under_another_name_or_with_another_key_is_not_opened(tmp_path: Path):
    vault = vault_of(tmp_path)
    await vault.put("client:x", SECRET)
    await vault.store.write("client:y", await vault.store.read("client:x"))
    other = vault_of(tmp_path, **{VARIABLE: "another key altogether"})

    with pytest.raises(ConfigError, match="another key"):
        await vault.get("client:y", OAuthClient)
    with pytest.raises(ConfigError, match="another key"):
        await other.get("client:x", OAuthClient)


async def test_a_key_that_others_can_read_is_refused(tmp_path: Path):
    await vault_of(tmp_path).put("a", SECRET)
    [key] = tmp_path.rglob(KEY_NAME)
    os.chmod(key, 0o644)

    with pytest.raises(ConfigError, match="Others can read"):
        await vault_of(tmp_path).get("a", OAuthClient)


async def test_a_configured_key_must_be_long_enough_and_makes_no_file(tmp_path: Path):
    await vault_of(tmp_path, **{VARIABLE: "long enough to be one"}).put("a", SECRET)

    assert not list(tmp_path.rglob(KEY_NAME))
    with pytest.raises(ConfigError, match="shorter"):
        await vault_of(tmp_path, **{VARIABLE: "short"}).put("a", SECRET)
