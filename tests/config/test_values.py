"""Readers: sizes and the limits made of them."""

import pytest

from toolcrib.config.merge import merge
from toolcrib.config.model import ResultsConfig, has_result_limit, without_result_limits
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import ConfigError

TEXT = """
[results]
limit = {limit}
keep = "5m"
space = "1.5GB"
[servers.files]
command = "x"
[servers.files.tools.read]
result_limit = "4KB"
"""


@pytest.mark.parametrize(("written", "size"), [('"256KiB"', 262144), ('"10 MB"', 10**7), ("5000", 5000), ("0", 0)])
def test_sizes_are_bytes_or_have_a_unit(written, size):
    """KB is a thousand, KiB is 1024."""
    config = merge(parse_toml(TEXT.format(limit=written), "toolcrib.toml"))

    assert config.results == ResultsConfig(size, 300.0, 1_500_000_000)
    assert config.servers["files"].tools["read"].result_limit == 4000


@pytest.mark.parametrize("written", ['"much"', "-1", "100", "true", '"1KB"'])
def test_a_limit_that_leaves_no_room_for_a_preview_is_refused(written):
    """With the line it stands on."""
    with pytest.raises(ConfigError, match=r"toolcrib.toml:3: results.limit must be"):
        parse_toml(TEXT.format(limit=written), "toolcrib.toml")


def test_a_program_can_do_without_any_limit():
    """The tools' own ones go too."""
    config = merge(parse_toml(TEXT.format(limit="0"), "toolcrib.toml"))

    assert has_result_limit(config)
    assert not has_result_limit(without_result_limits(config))
