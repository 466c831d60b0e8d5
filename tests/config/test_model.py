from toolcrib.config.model import ConnectConfig, ServerConfig, config_hash

SERVER = ServerConfig("time", command="uvx", args=("mcp-server-time",), env={"A": "1", "B": "${B}"}, cwd="/srv")


def test_the_hash_is_the_same_for_ever():
    """A lock written by one version is still valid for the next: the hash of a configuration never changes."""
    assert config_hash(SERVER) == "98bd72e01de88900ff31637d590487f296ed2bc18da139462da285b83a1a6a56"


def test_the_hash_does_not_depend_on_the_order_of_variables():
    """Reordering ``env`` in the file is not a change."""
    reordered = ServerConfig("time", command="uvx", args=("mcp-server-time",), env={"B": "${B}", "A": "1"}, cwd="/srv")

    assert config_hash(reordered) == config_hash(SERVER)


def test_the_hash_changes_with_everything_that_decides_what_is_discovered():
    """Command, arguments, variables, directory, address and headers each make another server of it."""
    variations = [
        SERVER,
        ServerConfig("time", command="npx", args=SERVER.args, env=SERVER.env, cwd="/srv"),
        ServerConfig("time", command="uvx", args=(), env=SERVER.env, cwd="/srv"),
        ServerConfig("time", command="uvx", args=SERVER.args, env={}, cwd="/srv"),
        ServerConfig("time", command="uvx", args=SERVER.args, env=SERVER.env),
        ServerConfig("time", url="https://example.org/mcp"),
        ServerConfig("time", url="https://example.org/mcp", headers={"X": "1"}),
    ]

    assert len({config_hash(server) for server in variations}) == len(variations)


def test_the_hash_ignores_what_does_not_change_the_tools():
    """Timeouts, policies, the place in the file and the name leave the record valid."""
    changed = ServerConfig(
        "clock", command="uvx", args=SERVER.args, env=SERVER.env, cwd="/srv",
        ttl_s=1, enabled=False, description="x", origin="elsewhere.toml", line=9,
    )  # fmt: skip

    assert config_hash(changed) == config_hash(SERVER)


def test_a_server_that_only_moved_in_its_file_is_the_same_server():
    """A reload after a comment was added must not restart anything."""
    assert ServerConfig("a", command="x", origin="f.toml", line=1) == ServerConfig("a", command="x", line=7)


def test_the_last_delay_holds_for_all_further_attempts():
    """Five attempts with the standard delays wait 0, 2, 4, 4, 4 seconds."""
    connect = ConnectConfig(attempts=5)

    assert [connect.delay_before_s(attempt) for attempt in range(1, 6)] == [0.0, 2.0, 4.0, 4.0, 4.0]
    assert ConnectConfig(delays_s=()).delay_before_s(1) == 0.0
