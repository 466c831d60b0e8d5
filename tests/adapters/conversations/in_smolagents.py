import asyncio
import json
from typing import Any

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent
from smolagents.models import get_tool_json_schema
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib, open_crib, tool
from toolcrib.adapters.smolagents import show_images, tools
from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig
from toolcrib.core.errors import CallerError, ToolFailed


async def talk(crib: Crib, url: str) -> Any:
    model = OpenAIModel("small", api_base=f"{url}/v1", api_key="sk-example", client_kwargs={"max_retries": 0})
    given = await tools(crib, names=NAMES)
    agent = ToolCallingAgent(given, model, step_callbacks=[show_images], verbosity_level=LogLevel.OFF)
    text = await asyncio.to_thread(agent.run, "Go")
    return {"text": text, "blocked": _complaint(given), "raised": await _raised(crib), "odd": await _odd()}


def _complaint(given: list[Any]) -> str:
    try:
        given[0](name="Ann")
    except CallerError as error:
        return str(error)
    return ""


async def _odd() -> Any:
    """The inputs of a tool that the framework has no words for."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    properties = {
        "anything": True,
        "either": {"anyOf": [{"const": 1}, {"type": "string"}]},
        "node": {"$ref": "#/$defs/node"},
        "class": {"enum": ["a"], "type": "string", "description": "Which."},
    }
    schema = {"type": "object", "properties": properties, "required": ["class"], "$defs": {"node": node}}

    @tool(name="odd-one", input_schema=schema, security_level="read_only")
    def odd(arguments: dict[str, Any]) -> dict[str, Any]:
        """Be odd."""
        return arguments

    async with open_crib(Config(kb=KbConfig(enabled=False)), tools=[odd]) as crib:
        (made,) = await tools(crib, names=["odd-one"])
        said = await asyncio.to_thread(made, t_class="a", either=None, anything=None)
    return {"sent": get_tool_json_schema(made)["function"]["parameters"], "came": json.loads(said)}


async def _raised(crib: Crib) -> str:
    (fail,) = await tools(crib, names=["fail"], raises=True)
    try:
        await asyncio.to_thread(fail, why="bad day")
    except ToolFailed as error:
        return str(error)
    return ""


if __name__ == "__main__":
    converse(talk)
