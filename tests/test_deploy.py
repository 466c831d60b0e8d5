"""What stands in ``deploy`` fits the code, as far as that can be told without a cluster."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

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
