"""What can be seen of a tool: the same over REST, MCP and the command line."""

from toolcrib import Deprecation, Example, tool
from toolcrib.core.offers import META_TOOL
from toolcrib.server.views.tools import tool_detail
from toolcrib.testing import memory_crib


@tool(
    version="2.1.0",
    category="search",
    capabilities=["net"],
    security_level="read_only",
    timeout_s=7.5,
    deprecated=Deprecation("it is slow.", "look_up"),
    examples=[Example({"word": "ant"}, "An insect", {"found": 1})],
    completions={"word": ["ant", "bee"]},
)
def seek(word: str) -> dict[str, int]:
    """Seek a word."""
    return {"found": len(word) // 3}


async def test_what_a_definition_says_is_seen_by_programs_and_by_clients():
    """Version, category, examples, timeout and deprecation, in REST's words and in MCP's ``_meta``."""
    async with memory_crib(tools=[seek]) as made:
        route = made.crib.lookup("seek")
        detail = tool_detail(made.crib, route, for_operator=False)
        meta = route.to_mcp()["_meta"][META_TOOL]

    example = {"arguments": {"word": "ant"}, "description": "An insect", "expectedOutput": {"found": 1}}
    deprecation = {"reason": "it is slow.", "useInstead": "look_up"}
    assert (detail.version, detail.category, detail.security_level) == ("2.1.0", "search", "read_only")
    assert (detail.capabilities, detail.timeout_seconds, detail.deprecation) == (["net"], 7.5, deprecation)
    assert (detail.examples, detail.completions) == ([example], {"word": ["ant", "bee"]})
    assert meta == {
        "version": "2.1.0",
        "category": "search",
        "securityLevel": "read_only",
        "capabilities": ["net"],
        "examples": [example],
        "timeoutSeconds": 7.5,
        "deprecation": deprecation,
    }
