"""What stands in ``deploy`` fits the code, as far as that can be told without a cluster."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.fleet.install import IMAGE_EXTRAS

from toolcrib.calls.metrics import exposition
from toolcrib.cli.main import COMMANDS
from toolcrib.config.parse import parse
from toolcrib.crib.builder import open_crib
from toolcrib.server.app import OPEN_PATHS

DEPLOY = Path(__file__).parent.parent / "deploy"
ADDRESSES = {name: f"127.0.0.1:{port}" for port, name in enumerate(("HAPROXY_BIND", "REPLICA_1", "REPLICA_2"), 18001)}
METRIC = re.compile(r"\b(toolcrib_\w+|process_\w+)\b")


def manifests() -> list[dict[str, object]]:
    texts = [path.read_text() for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))]
    return [found for text in texts for found in yaml.safe_load_all(text)]


def of_kind(kind: str) -> dict:
    return next(found for found in manifests() if found["kind"] == kind)


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def commands() -> list[list[str]]:
    """Every command line of toolcrib that is written there."""
    services = compose()["services"].values()
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    ours = [service["command"] for service in services if "build" in service]
    return [*ours, *(container["args"] for container in (*pod["initContainers"], *pod["containers"]))]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_line_is_one_that_toolcrib_takes(command):
    words = 2 if command[0] not in COMMANDS else 1
    name, options = " ".join(command[:words]), [word for word in command[words:] if word.startswith("--")]
    shown = subprocess.run(
        ["toolcrib", *name.split(), "--help"], check=True, capture_output=True, text=True, env=_with_toolcrib()
    ).stdout

    assert name in COMMANDS
    assert [option for option in options if option not in shown] == []


def dockerfile() -> dict[str, str]:
    """Instruction → what it says; of several, the last."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))


def image_steps() -> list[list[str]]:
    """The commands by which the image is built, in their order."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    runs = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]
    return [shlex.split(step) for line in runs for step in line.split("&&")]


def goes_into_the_image(name: str) -> bool:
    """What ``.dockerignore`` lets through: everything is left out but what it names."""
    lines = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    return Path(name).parts[0] in kept and "__pycache__" not in name


def test_the_image_is_built_of_what_is_there():
    """A Python that toolcrib is for, files that are not left out, extras and a command that exist."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["only-include"], *wheel["force-include"], project["project"]["readme"]]
    needed += project["project"]["license-files"]
    said, steps = dockerfile(), image_steps()
    python = re.fullmatch(r"python:(3\.\d+)-slim", said["FROM"])
    install = next(words for words in steps if words[:3] == ["uv", "pip", "install"])
    extras = re.fullmatch(r"/src\[([\w,-]+)\]", install[-1])
    entry, (command, option, config) = json.loads(said["ENTRYPOINT"]), json.loads(said["CMD"])

    assert python
    assert f"Programming Language :: Python :: {python[1]}" in project["project"]["classifiers"]
    assert said["COPY"] == ". /src"
    assert [name for name in ["pyproject.toml", *needed] if not goes_into_the_image(name)] == []
    assert [name for name in needed if not (DEPLOY.parent / name).exists()] == []
    assert not goes_into_the_image(".venv/bin/python")
    assert [words[0] for words in steps] == ["pip", "uv", "rm", "useradd"]
    assert extras
    assert sorted(extras[1].split(",")) == sorted(IMAGE_EXTRAS)
    assert set(IMAGE_EXTRAS) <= set(project["project"]["optional-dependencies"])
    assert steps[-1][-1] == said["USER"]
    assert entry == list(project["project"]["scripts"])
    assert command in COMMANDS
    assert option == "--config"
    assert {f"./toolcrib.toml:{config}:ro"} == {v for each in ours() for v in each["volumes"]}


def ours() -> list[dict]:
    return [service for service in compose()["services"].values() if "build" in service]


def test_the_pythons_that_are_named_are_the_ones_it_is_for():
    """In the package's own description, in the README, in ``dev``."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)

    assert project["requires-python"] == f">={named[0]}"
    assert named == [f"3.{minor}" for minor in range(11, 11 + len(named))]
    assert f"Python {named[0]} or newer" in (DEPLOY.parent / "README.md").read_text()
    assert f"needs Python {named[0]} or newer" in (DEPLOY.parent / "dev").read_text()


def _with_toolcrib() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_configurations_are_valid():
    texts = [(DEPLOY / "toolcrib.toml").read_text(), of_kind("ConfigMap")["data"]["toolcrib.toml"]]
    for text in texts:
        layer = parse(text, "toolcrib.toml")
        assert layer.settings["store.url"] == "${DATABASE_URL}"
        assert layer.settings["redis.url"] == "${REDIS_URL}"
        assert tomllib.loads(text)["serve"]["auth"] == "required"


def test_probes_ask_what_is_answered_without_a_token():
    container = of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]
    paths = {container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}

    assert paths == set(OPEN_PATHS)
    assert "uri /readyz" in (DEPLOY / "haproxy.cfg").read_text()


def test_haproxy_takes_its_configuration():
    haproxy = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    assert haproxy is not None, "The tests need haproxy: sudo apt-get install -y haproxy"
    environment = {**os.environ, **ADDRESSES, "REPLICA_3": "127.0.0.1:18009"}
    done = subprocess.run(
        [haproxy, "-c", "-f", DEPLOY / "haproxy.cfg"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


async def test_the_dashboard_asks_for_metrics_that_exist(tmp_path):
    def shout(text: str) -> str:
        return text.upper()

    async with open_crib({"mcpServers": {}}, tools=[shout]) as crib:
        await crib.call("shout", {"text": "a"})
        page = exposition(crib.metrics, crib.health(), "1", 0.0)
    families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    known = families | {f"{name}{suffix}" for name in families for suffix in ("_bucket", "_sum", "_count")}
    dashboard = json.loads((DEPLOY / "grafana" / "toolcrib.json").read_text())
    asked = {
        name for panel in dashboard["panels"] for target in panel["targets"] for name in METRIC.findall(target["expr"])
    }

    assert asked
    assert asked - known == set()
