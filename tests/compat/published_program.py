"""A program written for the published tooling package. Prints what it saw, one JSON object a line.

Run with the published package, or with toolcrib in its place: nothing in here knows which.
"""

import asyncio
import json
import logging
import os
import sys
from types import SimpleNamespace

from microsoft_agents_a365.runtime import OperationError, OperationResult
from microsoft_agents_a365.tooling import Constants, MCPServerConfig, McpToolServerConfigurationService
from microsoft_agents_a365.tooling.models import ChatHistoryMessage, ChatMessageRequest, ToolOptions
from microsoft_agents_a365.tooling.utils.utility import (
    build_mcp_server_url,
    get_chat_history_endpoint,
    get_mcp_base_url,
    get_mcp_platform_authentication_scope,
    is_development_environment,
    resolve_token_scope_for_server,
)

TOKEN = os.environ["TEST_TOKEN"]
HEARD: list[str] = []


class Ears(logging.Handler):
    """Notes at which levels something was said."""

    def emit(self, record: logging.LogRecord) -> None:
        HEARD.append(record.levelname)


def tell(**seen: object) -> None:
    print(json.dumps(seen), flush=True)


def turn(text: str = "hi", conversation: str = "c1") -> SimpleNamespace:
    place = SimpleNamespace(id=conversation)
    activity = SimpleNamespace(id="m1", text=text, conversation=place, from_=None, recipient=None)
    return SimpleNamespace(activity=activity)


def refused(build) -> dict[str, object]:
    try:
        build()
    except ValueError as error:
        return {"is_value_error": True, "says_empty": "empty" in str(error)}
    return {"is_value_error": False}


async def outcome(asking) -> dict[str, object]:
    try:
        found = await asking
    except ValueError as error:
        return {"value_error": str(error)}
    except Exception as error:
        return {"failed": str(error).partition(":")[0]}
    return {
        "servers": [
            [one.mcp_server_name, one.mcp_server_unique_name, one.url, one.audience, one.scope, one.publisher]
            for one in found
        ]
    }


async def listing(service: McpToolServerConfigurationService) -> None:
    options = ToolOptions(orchestrator_name="Claude")
    os.environ["PYTHON_ENVIRONMENT"] = "Development"
    tell(
        step="manifest",
        development=is_development_environment(),
        **await outcome(service.list_tool_servers("app", "", options)),
    )
    found = await service.list_tool_servers("", None)
    tell(step="tokens", authorization=[(one.headers or {}).get(Constants.Headers.AUTHORIZATION) for one in found])
    os.environ["PYTHON_ENVIRONMENT"] = "Production"
    tell(
        step="gateway",
        development=is_development_environment(),
        **await outcome(service.list_tool_servers("app", TOKEN, options)),
    )
    tell(step="no app", **await outcome(service.list_tool_servers("", TOKEN)))
    tell(step="no token", **await outcome(service.list_tool_servers("app", "")))
    tell(step="refused", **await outcome(service.list_tool_servers("refused", TOKEN)))


async def chat(service: McpToolServerConfigurationService) -> None:
    history = [ChatHistoryMessage(role="user", content="x"), ChatHistoryMessage(role="assistant", content="y")]
    sent = await service.send_chat_history(turn(), history)
    tell(step="chat", succeeded=sent.succeeded, errors=len(sent.errors), text=str(sent))
    for name, context in {
        "blank text": turn(text=" "),
        "no conversation": turn(conversation=""),
        "no context": None,
    }.items():
        try:
            await service.send_chat_history(context, history)
        except ValueError as error:
            tell(step=name, value_error=str(error))


def values() -> None:
    v2 = MCPServerConfig("crm", "crm", audience="api://CRM", scope="Tools.ListInvoke.All")
    tell(step="scopes", found=[resolve_token_scope_for_server(one) for one in (v2, MCPServerConfig("a", "a"))])
    tell(
        step="addresses",
        found=[
            build_mcp_server_url("mail"),
            get_mcp_base_url(),
            get_chat_history_endpoint(),
            get_mcp_platform_authentication_scope(),
        ],
    )
    tell(step="headers", found={name: value for name, value in vars(Constants.Headers).items() if name.isupper()})
    tell(step="blank message", **refused(lambda: ChatHistoryMessage(role="user", content="  ")))
    tell(
        step="blank request",
        **refused(lambda: ChatMessageRequest(conversation_id="c", message_id="m", user_message="", chat_history=[])),
    )
    tell(step="nameless", **refused(lambda: MCPServerConfig("", "")))
    whole = ChatMessageRequest(
        conversation_id="c",
        message_id="m",
        user_message="u",
        chat_history=[ChatHistoryMessage(role="user", content="x")],
    )
    tell(step="request", found=whole.model_dump(by_alias=True))
    failed = OperationResult.failed(OperationError(ValueError("no")))
    tell(
        step="result",
        found=[failed.succeeded, failed.errors[0].message, str(failed), OperationResult.success().succeeded],
    )


async def main() -> None:
    logger = logging.getLogger("of-the-program")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Ears())
    logger.propagate = False
    service = McpToolServerConfigurationService(logger=logger)
    values()
    await listing(service)
    await chat(service)
    tell(step="logger", used="INFO" in HEARD)


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
