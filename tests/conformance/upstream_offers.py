"""What the server behind the gateway offers besides tools: the resources and prompts of the suite's scenarios.

Part of ``upstream.py``, and run in the same environment.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import mcp.types as types
from mcp.shared.exceptions import MCPError

PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TEXT, BINARY, WATCHED = "test://static-text", "test://static-binary", "test://watched-resource"
TEMPLATE = "test://template/{id}/data"
NAMED = re.compile(r"test://template/([^/]+)/data")

Contents = types.TextResourceContents | types.BlobResourceContents


def content_of(uri: str) -> Contents:
    """What is behind a URI; one that is nobody's is an error as the stateless era wants it."""
    if uri in (TEXT, WATCHED):
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"The words of {uri}.")
    if uri == BINARY:
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL_PNG)
    if found := NAMED.fullmatch(uri):
        words = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=words)
    raise MCPError(types.INVALID_PARAMS, f"Unknown resource: {uri}", {"uri": uri})


async def list_resources(_ctx: Any, _params: Any) -> types.ListResourcesResult:
    kinds = {TEXT: "text/plain", BINARY: "image/png", WATCHED: "text/plain"}
    found = [
        types.Resource(uri=uri, name=uri.removeprefix("test://"), description="For tests.", mime_type=kind)
        for uri, kind in kinds.items()
    ]
    return types.ListResourcesResult(resources=found)


async def list_templates(_ctx: Any, _params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template=TEMPLATE, name="template", description="One for each id.", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[content_of(str(params.uri))])


async def subscribe(_ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    content_of(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_ctx: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""By name, with their arguments."""


async def list_prompts(_ctx: Any, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[prompt_of(name, names) for name, names in PROMPTS.items()])


def prompt_of(name: str, names: tuple[str, ...]) -> types.Prompt:
    needs = [types.PromptArgument(name=argument, description="Any text.", required=True) for argument in names]
    return types.Prompt(name=name, description=f"The prompt {name}.", arguments=needs)


def blocks_of(name: str, given: dict[str, str]) -> list[types.ContentBlock]:
    """The contents of a prompt's messages."""
    if name == "test_prompt_with_embedded_resource":
        inner = types.TextResourceContents(
            uri=given.get("resourceUri", TEXT), mime_type="text/plain", text="Embedded resource content for testing."
        )
        return [types.EmbeddedResource(resource=inner), types.TextContent(text="Please process it.")]
    if name == "test_prompt_with_image":
        image = types.ImageContent(data=PIXEL_PNG, mime_type="image/png")
        return [image, types.TextContent(text="Please look at it.")]
    if name == "test_prompt_with_arguments":
        return [types.TextContent(text=f"Given: arg1={given.get('arg1')!r}, arg2={given.get('arg2')!r}")]
    return [types.TextContent(text="This is a simple prompt for testing.")]


def make_get_prompt(question: types.ElicitRequest) -> Callable[..., Any]:
    """What gets a prompt; one of them only after an answer to ``question``."""

    async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> Any:
        if params.name not in PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        if params.name == "test_input_required_result_prompt" and not params.input_responses:
            return types.InputRequiredResult(input_requests={"context": question}, request_state=None)
        blocks = blocks_of(params.name, dict(params.arguments or {}))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])

    return get_prompt


async def complete(_ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))
