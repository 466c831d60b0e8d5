import pytest

from toolcrib.config.foreign.entry import is_toolcrib
from toolcrib.config.model import ServerConfig


@pytest.mark.parametrize(
    "server",
    [
        ServerConfig("a", command="toolcrib", args=("stdio",)),
        ServerConfig("a", command="/opt/bin/toolcrib", args=("stdio", "--config", "x")),
        ServerConfig("a", command="C:\\Tools\\toolcrib.exe", args=("stdio",)),
        ServerConfig("a", command="uvx", args=("toolcrib", "stdio")),
        ServerConfig("a", command="uvx", args=("--from", "toolcrib[yaml]==0.1", "toolcrib", "stdio")),
        ServerConfig("a", command="/venv/bin/python3.12", args=("-m", "toolcrib", "stdio")),
        ServerConfig("a", command="env", args=("A=b", "toolcrib", "stdio")),
        ServerConfig("a", command="cmd", args=("/c", "toolcrib", "stdio")),
        ServerConfig("a", url="http://127.0.0.1:7337/mcp"),
        ServerConfig("toolcrib", url="http://localhost:9000/mcp"),
        ServerConfig("a", url="https://tools.example/mcp"),
    ],
)
def test_toolcrib_is_recognised_however_it_is_started(server):
    """By its command, or by its address."""
    assert is_toolcrib(server.name, server, frozenset({"https://tools.example/mcp"}))


@pytest.mark.parametrize(
    "server",
    [
        ServerConfig("a", command="npx", args=("toolcrib-notes",)),
        ServerConfig("toolcrib", command="python", args=("server.py",)),
        ServerConfig("a", command="cat", args=("toolcrib",)),
        ServerConfig("a", url="http://127.0.0.1:9000/mcp"),
        ServerConfig("toolcrib", url="https://elsewhere.example/mcp"),
    ],
)
def test_others_are_not(server):
    """Neither by a name alone, nor by a word among their arguments."""
    assert not is_toolcrib(server.name, server)
