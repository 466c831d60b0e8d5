from toolcrib.config.foreign.plan import FoundAt, FoundServer, gather
from toolcrib.config.foreign.references import ForeignServer
from toolcrib.config.model import ServerConfig, ToolConfig

OFF = ToolConfig(policy="disable")


def found(client: str, name: str, server: ServerConfig | None, *notes: str) -> tuple[FoundAt, ForeignServer]:
    return FoundAt(client, f"/{client}.json", name), ForeignServer(name, server, notes)


def test_the_same_server_in_several_programs_is_one_with_all_its_origins():
    """Whatever they call it; a tool that one of them has off is off, and it is on if one has it on."""
    one = found("cursor", "Time", ServerConfig("time", command="x", enabled=False), "a")
    other = found("zed", "clock", ServerConfig("clock", command="x", tools={"t": OFF}), "a", "b")
    different = found("zed", "time", ServerConfig("time", command="x", args=("-v",)))

    assert gather([one, other, different]) == [
        FoundServer(ServerConfig("time", command="x", tools={"t": OFF}), (one[0], other[0]), ("a", "b")),
        FoundServer(ServerConfig("time", command="x", args=("-v",)), (different[0],)),
    ]


def test_a_server_with_another_secret_is_another_server():
    """Two accounts are not one."""
    servers = [ServerConfig("a", command="x", env={"K": value}) for value in ("1", "2")]

    assert len(gather([found("cursor", "a", servers[0]), found("zed", "a", servers[1])])) == 2


def test_toolcrib_itself_is_not_there():
    """However it was connected."""
    own = [
        found("cursor", "toolcrib", ServerConfig("toolcrib", command="toolcrib", args=("stdio",))),
        found("zed", "tools", ServerConfig("tools", url="https://tools.example/mcp")),
    ]

    assert gather(own, frozenset({"https://tools.example/mcp"})) == []
