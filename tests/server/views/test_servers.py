"""Servers as plain data, without their secrets."""

from toolcrib.config.model import ServerConfig
from toolcrib.core.limits import Rate
from toolcrib.server.views.servers import log_lines, runs, shown_config
from toolcrib.testing import FakeSource, memory_crib


def test_a_configuration_is_shown_by_the_keys_of_the_file_and_without_secrets():
    """What says nothing is left out."""
    server = ServerConfig(
        "docs",
        command="docs",
        args=("--api-key", "sk-0123456789abcdef", "--port", "80"),
        env={"DOCS_TOKEN": "very-secret", "LANG": "C"},
        rate=Rate(10, 60.0),
    )
    shown = shown_config(server)

    assert shown["args"] == ["--api-key", "***", "--port", "80"]
    assert shown["env"] == {"DOCS_TOKEN": "***", "LANG": "C"}
    assert shown["rate"] == str(Rate(10, 60.0))
    assert "url" not in shown
    assert runs(server) == "docs --api-key *** --port 80"


async def test_no_lines_are_no_lines():
    """A count of none is not a count of all."""
    async with memory_crib(FakeSource("files")) as made:
        assert log_lines(made.crib, "files", 0) == []
