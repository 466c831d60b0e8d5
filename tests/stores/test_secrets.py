"""Secrets are kept where their owner alone reads them, whole, whoever writes beside."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fleet.install import ensure_env

from toolcrib.config.references import Variables, resolve, resolve_leniently
from toolcrib.core.errors import CallerError, ConfigError
from toolcrib.stores.paths import Environment
from toolcrib.stores.secrets import KEYRING, SecretStore, UnknownSecret

PUT = (
    "import sys; from toolcrib.stores.secrets import SecretStore as S; S({'HOME': sys.argv[1]}).put({sys.argv[2]: 'v'})"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def test_what_is_kept_is_there_for_its_owner_alone(env):
    """Also for another process; and gone when it is removed."""
    store = SecretStore(env)
    store.put({"B_TOKEN": "b\nb ${X}", "A_KEY": "a"})

    assert (SecretStore(env).get("B_TOKEN"), store.get("NONE")) == ("b\nb ${X}", None)
    assert SecretStore(env).places() == {"A_KEY": str(store.path), "B_TOKEN": str(store.path)}
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert store.remove("A_KEY") == str(store.path)
    assert SecretStore(env).get("A_KEY") is None
    with pytest.raises(UnknownSecret, match="Did you mean 'B_TOKEN'"):
        store.remove("B_TOKENS")


def test_a_running_process_sees_what_another_one_keeps(env):
    here = SecretStore(env)
    assert here.get("K") is None

    SecretStore(env).put({"K": "1"})
    assert here.get("K") == "1"
    SecretStore(env).put({"K": "2"})
    assert here.get("K") == "2"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_read_or_write_is_refused(env, mode):
    store = SecretStore(env)
    store.put({"K": "v"})
    os.chmod(store.path, mode)

    for use in (store.places, lambda: SecretStore(env).get("K"), lambda: SecretStore(env).put({"L": "w"})):
        with pytest.raises(ConfigError, match=r"Others can read the kept secrets.*chmod 600"):
            use()


@pytest.mark.parametrize("text", ["{", '{"version": 2, "secrets": {}}', '{"secrets": {"K": "v"}}'])
def test_a_damaged_file_is_an_error_and_stays(env, text):
    store = SecretStore(env)
    store.put({"K": "v"})
    store.path.write_text(text)

    for use in (lambda: store.get("K"), lambda: store.put({"L": "w"})):
        with pytest.raises(ConfigError, match="damaged"):
            use()
    assert store.path.read_text() == text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("1K", "v", "cannot be the name"),
        ("K-L", "v", "cannot be the name"),
        ("Ä", "v", "cannot be the name"),
        ("K", "", "is empty"),
        ("K", "a\0b", "NUL"),
        ("K", "x" * 65_537, "longer"),
    ],
)
def test_what_no_reference_could_stand_for_is_not_kept(env, name, value, told):
    with pytest.raises(CallerError, match=told) as caught:
        SecretStore(env).put({"GOOD": "v", name: value})

    assert value == "" or value not in str(caught.value) or value == "v"
    assert SecretStore(env).places() == {}


def test_another_value_of_the_same_name_is_replaced_only_where_that_is_meant(env):
    store = SecretStore(env)
    store.put({"K": "one", "L": "one"})

    store.put({"K": "one", "L": "two"}, replacing=["L"])
    with pytest.raises(ConfigError, match="Another value was kept as K"):
        store.put({"K": "two"}, replacing=[])

    assert (store.get("K"), store.get("L")) == ("one", "two")


def test_processes_that_write_at_once_lose_nothing(env):
    names = [f"K{number}" for number in range(8)]
    processes = [subprocess.Popen([sys.executable, "-c", PUT, env["HOME"], name]) for name in names]

    assert [process.wait(150) for process in processes] == [0] * 8
    assert list(SecretStore(env).places()) == names


def test_a_variable_counts_before_what_is_kept_and_an_empty_one_does_not(tmp_path):
    env = {"HOME": str(tmp_path), "BOTH": "variable", "EMPTY": ""}
    SecretStore(env).put({"BOTH": "kept", "EMPTY": "kept", "ONLY": "kept"})
    variables = Environment(tmp_path, env).variables

    assert resolve("${BOTH} ${EMPTY} ${ONLY} ${EMPTY:-x} ${NEITHER:-x}", variables) == "variable kept kept kept x"
    assert dict(variables) == {**env, "EMPTY": "kept"}
    with pytest.raises(ConfigError, match="toolcrib secrets set NEITHER"):
        resolve("${NEITHER}", variables)


def test_a_refused_file_costs_only_what_needs_it(tmp_path):
    """A default would hide that the secret could not be read; to look for secrets in words, it counts as none."""
    env = {"HOME": str(tmp_path), "HERE": "variable"}
    SecretStore(env).put({"K": "kept"})
    os.chmod(SecretStore(env).path, 0o644)
    variables = Environment(tmp_path, env).variables

    assert resolve("${HERE} $${K}", variables) == "variable ${K}"
    assert resolve_leniently("a${K}", variables) == "a"
    for text in ("${K}", "${K:-default}"):
        with pytest.raises(ConfigError, match="Others can read"):
            resolve(text, variables)


def test_no_secret_is_asked_for_that_the_environment_has():
    asked: list[str] = []
    variables = Variables({"A": "1"}, asked.append)

    assert (variables.get("A"), variables.get("B")) == ("1", None)
    assert asked == ["B"]


RING = """
import sys
from toolcrib.stores.secrets import SecretStore
env = dict(HOME=sys.argv[1])
store = SecretStore(env)
store.put({"K": "kept-in-the-ring", "L": "two"})
assert SecretStore(env).get("K") == "kept-in-the-ring"
store.remove("L")
print(store.places(), SecretStore(env).get("L"), "kept-in-the-ring" in store.path.read_text())
"""


@pytest.mark.parametrize(
    ("backend", "place"), [("keyrings.alt.file.PlaintextKeyring", KEYRING), ("keyring.backends.fail.Keyring", "")]
)
def test_a_keyring_that_works_holds_the_values(tmp_path, backend, place):
    """And one that does not is as good as none."""
    packages = next((ensure_env("keyring").parents[1] / "lib").glob("python*/site-packages"))
    chosen = {"PYTHONPATH": str(packages), "PYTHON_KEYRING_BACKEND": backend, "XDG_DATA_HOME": str(tmp_path / "data")}

    done = subprocess.run(
        [sys.executable, "-c", RING, str(tmp_path)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], **chosen},
        check=False,
        capture_output=True,
        text=True,
    )
    file = str(tmp_path / ".local/state/toolcrib/secrets.json")

    assert done.stdout == f"{ {'K': place or file} } None {not place}\n", done.stderr


def test_a_keyring_that_is_gone_says_so(env):
    """The name is known, its value is not: nobody may take that for a secret that does not exist."""
    store = SecretStore(env)
    store.put({"L": "v"})
    store.path.write_text('{"version": 1, "secrets": {"K": {}, "L": {"value": "v"}}}')

    assert store.places() == {"K": KEYRING, "L": str(store.path)}
    with pytest.raises(ConfigError, match="does not give it out"):
        SecretStore({**env, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}).get("K")
