"""What each server is asked: lists, then reads, prompts, completions, calls that look harmless, and mistakes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.foreign.arguments import arguments_for, text_for
from bench.foreign.installing import ForeignServer
from bench.foreign.talking import Json, SilentError, Talk

LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
LIST_S = 60.0
ANSWER_S = 20.0
MOST = 12
"""So many tools are called, resources read and prompts got of each server."""
_HARMLESS = re.compile(
    r"(?:^|_|-|\b)(?:get|list|search|read|find|describe|show|check|count|lookup|look_up|validate|calculate|calc|convert"
    r"|explain|analy[sz]e|help|info|status|version|query|think|resolve|inspect|view|parse|compare|detect|current|now"
    r"|sequentialthinking|guide|docs?)(?:$|_|-|\b|[A-Z])"
)
_HARMFUL = re.compile(r"delete|remove|drop|create|write|update|exec|run|send|post|kill|install|shell|launch|open|close")
_EXPRESSION = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True)
class Question:
    """One request, with names and URIs as the server itself knows them."""

    label: str
    """What the answer is called where differences are told."""
    method: str
    params: Json


async def ask_lists(talk: Talk) -> dict[str, Any]:
    """What the server says of itself, and its lists."""
    told: dict[str, Any] = {
        "capabilities": talk.greeting.get("capabilities", {}),
        "instructions": talk.greeting.get("instructions", ""),
    }
    for kind, method in LISTS.items():
        if kind == "tools" or _capability(kind) in told["capabilities"]:
            told[kind] = await talk.list_all(method, kind, LIST_S)
    return told


def _capability(kind: str) -> str:
    return "resources" if kind == "resourceTemplates" else kind


def questions(told: dict[str, Any], server: ForeignServer) -> list[Question]:
    """Everything else that is asked, from what the server lists directly."""
    found = {kind: told.get(kind, {}).get("result", {}).get(kind, []) for kind in LISTS}
    return [
        *_calls([tool for tool in found["tools"] if server.is_called(tool["name"])]),
        *_reads(found["resources"], found["resourceTemplates"]),
        *_prompts(found["prompts"]),
        *(_completions(found["prompts"], found["resourceTemplates"]) if "completions" in told["capabilities"] else ()),
        *_mistakes(found, told["capabilities"]),
    ]


def _calls(tools: list[Json]) -> Iterator[Question]:
    """Twice each, with what is required and with everything."""
    for tool in [tool for tool in tools if _is_harmless(tool)][:MOST]:
        for label, is_whole in (("required", False), ("all", True)):
            arguments = arguments_for(tool["inputSchema"], is_whole=is_whole)
            if arguments is not None:
                params = {"name": tool["name"], "arguments": arguments}
                yield Question(f"call[{tool['name']} {label}]", "tools/call", params)


def _is_harmless(tool: Json) -> bool:
    hints = tool.get("annotations") or {}
    if hints.get("readOnlyHint") is not None:
        return bool(hints["readOnlyHint"])
    is_quiet = not hints.get("destructiveHint") and not _HARMFUL.search(tool["name"].lower())
    return is_quiet and _HARMLESS.search(tool["name"]) is not None


def _reads(resources: list[Json], templates: list[Json]) -> Iterator[Question]:
    for resource in resources[:MOST]:
        yield Question(f"read[{resource['uri']}]", "resources/read", {"uri": resource["uri"]})
    for template in templates[:MOST]:
        uri = _EXPRESSION.sub("1", template["uriTemplate"])
        yield Question(f"read[{uri}]", "resources/read", {"uri": uri})


def _prompts(prompts: list[Json]) -> Iterator[Question]:
    for prompt in prompts[:MOST]:
        arguments = {one["name"]: text_for(one["name"]) for one in prompt.get("arguments") or ()}
        params = {"name": prompt["name"], **({"arguments": arguments} if arguments else {})}
        yield Question(f"prompt[{prompt['name']}]", "prompts/get", params)


def _completions(prompts: list[Json], templates: list[Json]) -> Iterator[Question]:
    for prompt in prompts[:MOST]:
        for argument in (prompt.get("arguments") or ())[:2]:
            ref = {"type": "ref/prompt", "name": prompt["name"]}
            yield _completion(f"{prompt['name']} {argument['name']}", ref, argument["name"])
    for template in templates[:MOST]:
        for name in re.findall(r"\{[+#./;?&]?(\w+)", template["uriTemplate"])[:2]:
            ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
            yield _completion(f"{template['uriTemplate']} {name}", ref, name)


def _completion(label: str, ref: Json, name: str) -> Question:
    params = {"ref": ref, "argument": {"name": name, "value": ""}}
    return Question(f"complete[{label}]", "completion/complete", params)


def _mistakes(found: dict[str, list[Json]], capabilities: Json) -> Iterator[Question]:
    yield Question("mistake[unknown tool]", "tools/call", {"name": "no_such_tool", "arguments": {}})
    needy = next((tool for tool in found["tools"] if _is_harmless(tool) and tool["inputSchema"].get("required")), None)
    if needy is not None:
        yield Question("mistake[nothing given]", "tools/call", {"name": needy["name"], "arguments": {}})
    if "resources" in capabilities:
        yield Question("mistake[unknown resource]", "resources/read", {"uri": "nosuch://thing/at/all"})
    if "prompts" in capabilities:
        yield Question("mistake[unknown prompt]", "prompts/get", {"name": "no_such_prompt"})
        strict = next((one for one in found["prompts"] if _needs_arguments(one)), None)
        if strict is not None:
            yield Question("mistake[prompt without arguments]", "prompts/get", {"name": strict["name"]})


def _needs_arguments(prompt: Json) -> bool:
    return any(one.get("required") for one in prompt.get("arguments") or ())


async def ask_all(talk: Talk, asked: list[Question]) -> dict[str, Any]:
    """The answers by label; what is not answered in time is ``None``."""
    answers: dict[str, Any] = {}
    for question in asked:
        try:
            answers[question.label] = await talk.ask(question.method, question.params, ANSWER_S)
        except SilentError:
            answers[question.label] = None
            if talk.process.returncode is not None:
                break
    return answers
