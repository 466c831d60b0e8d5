"""Each adapter inside its real framework: what a model asked for is done, what came of it is told, examples run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.conftest import Inside, environment
from tests.adapters.conversations import AWKWARD, NAMES, PIXEL
from tests.adapters.examples import framework_blocks
from tests.doubles.llm import LlmDouble, Step

Converse = Callable[[str, str], Any]
NAMES_OUTSIDE = [name.replace(".", "_") for name in NAMES]
CAME = dict.fromkeys(AWKWARD, "x") | {"level": 1}
ALL_DONE = Step("All done.")
ANY = ["string", "number", "integer", "boolean", "object", "array", "null"]
ANYTHING = {"type": ANY, "items": {}, "nullable": True}
NODE = {"next": {"type": "object", "description": "the same form again as node"}}
ODD_INPUTS = {
    "anything": {**ANYTHING, "description": "-"},
    "either": {**ANYTHING, "description": 'must fit one of [{"const":1},{"type":"string"}]'},
    "node": {"type": "object", "properties": NODE, "description": "-", "nullable": True},
    "t_class": {"type": "string", "enum": ["a"], "description": "Which."},
}


@pytest.fixture
def converse(inside: Inside, tmp_path: Path) -> Converse:
    """Has one conversation inside a framework, with the model at a URL, and returns what it prints."""

    def run(name: str, url: str) -> Any:
        command = ["-m", f"tests.adapters.conversations.in_{name}", url]
        done = inside(name).run(command, env=environment(tmp_path), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("code", framework_blocks(over_mcp=False))
def test_examples_run_inside_their_framework(code: str, run_example: Callable[[str], str]):
    """An example of the docs is a whole program that ends well and says something."""
    assert run_example(code).strip()


@pytest.mark.parametrize(
    ("framework", "roles"),
    [
        ("langchain", ["HumanMessage", "AIMessage", "HumanMessage"]),
        ("openai_agents", ["user", "assistant", "user"]),
        ("pydantic_ai", ["ModelRequest", "ModelResponse", "ModelRequest"]),
        ("google_adk", ["user", "model", "user"]),
    ],
)
def test_a_prompt_is_given_in_the_messages_of_the_framework(
    framework: str, roles: list[str], inside: Inside, tmp_path: Path
):
    """In order, by who says them, the image with its words."""
    command = ["-m", "tests.adapters.conversations.with_prompts", framework]
    done = inside(framework).run(command, env=environment(tmp_path), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    texts = [["Plan a trip."], ["Where to?"], ["Here."]]
    assert json.loads(done.stdout) == [list(one) for one in zip(roles, texts, (False, False, True), strict=True)]


def test_a_crib_in_fastapi_serves_the_official_sdk(inside: Inside, tmp_path: Path):
    """Mounted under a path, behind uvicorn: both eras list, call and cancel; redirects and hosts are right."""
    command = ["-m", "tests.adapters.conversations.in_fastapi"]
    done = inside("fastapi").run(command, env=environment(tmp_path), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    met = {"tools": ["greet", "result_read", "ring"], "greeted": "Hello Ada"}
    rest = {"page": "/behind/tools/signin", "own": "own", "strange": 421}
    assert json.loads(done.stdout) == {"legacy": met, "2026-07-28": met, **rest}


def turn(*renamed: str) -> Step:
    """Two who must meet, a failure, a picture, and arguments of awkward names, some of which have others outside."""
    arguments = {f"t_{name}" if name in renamed else name: value for name, value in CAME.items()}
    meeting = (("meet", {"name": "Ann"}), ("meet", {"name": "Bob"}))
    return Step("", (*meeting, ("fail", {"why": "no luck"}), ("picture", {}), ("desk_awkward", arguments)))


def offered(llm: LlmDouble) -> list[str]:
    """The names of the tools in the first request, whichever provider's."""
    tools = llm.asked[0]["tools"]
    listed = tools[0].get("functionDeclarations", tools)
    return [tool.get("function", tool)["name"] for tool in listed]


def responses_output(llm: LlmDouble) -> list[Any]:
    return [item["output"] for item in llm.asked[1]["input"] if item.get("type") == "function_call_output"]


def check_anthropic(llm: LlmDouble) -> None:
    results = [block for block in llm.asked[1]["messages"][-1]["content"] if block["type"] == "tool_result"]
    assert [result["is_error"] for result in results] == [False, False, True, False, False]
    meet, _, failed, picture, awkward = (json.dumps(result["content"]) for result in results)
    assert "Ann was there" in meet
    assert "no luck" in failed
    assert "a pixel" in picture
    assert results[3]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert json.loads(first_text(results[4])) == {"came": CAME}, awkward


def first_text(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else content[0]["text"]


def check_responses(llm: LlmDouble) -> None:
    ann, bob, failed, picture, awkward = responses_output(llm)[:5]
    assert (ann, bob) == ("Ann was there", "Bob was there")
    assert failed == "Error: fail failed: ValueError: no luck"
    assert [part["type"] for part in picture] == ["input_text", "input_image"]
    assert picture[1]["image_url"] == f"data:image/png;base64,{PIXEL}"
    assert json.loads(awkward) == {"came": CAME}


def test_langchain_runs_the_tools_and_tells_errors_images_and_structured_results(converse: Converse):
    with LlmDouble(turn("config", "run_manager", "self"), ALL_DONE) as llm:
        said = converse("langchain", llm.url)

    assert said == {
        "text": "All done.",
        "status": {"meet": "success", "fail": "error", "picture": "success", "desk_awkward": "success"},
        "structured": {"structured_content": {"came": CAME}},
    }
    assert offered(llm) == NAMES_OUTSIDE
    check_anthropic(llm)


def test_pydantic_ai_runs_the_tools_and_tells_errors_images_and_structured_results(converse: Converse):
    alone = Step("", (("desk_awkward", CAME),))
    with LlmDouble(turn(), ALL_DONE, alone, Step("Again.")) as llm:
        said = converse("pydantic_ai", llm.url)

    assert said == {
        "text": "All done.",
        "outcomes": {"meet": "success", "fail": "failed", "picture": "success", "desk_awkward": "success"},
        "structured": {"structured_content": {"came": CAME}},
        "again": "Again.",
    }
    assert offered(llm) == NAMES_OUTSIDE
    check_anthropic(llm)
    (result,) = llm.asked[3]["messages"][-1]["content"]
    assert json.loads(first_text(result)) == {"came": CAME}


def test_the_openai_agents_sdk_runs_the_tools_and_tells_errors_and_images(converse: Converse):
    unreadable = ("fail", "[1, 2]")
    with LlmDouble(Step("", (*turn().calls, unreadable)), ALL_DONE) as llm:
        said = converse("openai_agents", llm.url)

    assert said == {"text": "All done."}
    assert offered(llm) == NAMES_OUTSIDE
    check_responses(llm)
    assert "not a JSON object" in responses_output(llm)[5]


def test_the_agent_framework_runs_the_tools_and_tells_errors_and_images(converse: Converse):
    with LlmDouble(turn("self"), ALL_DONE) as llm:
        said = converse("agent_framework", llm.url)

    assert said == {"text": "All done."}
    assert offered(llm) == NAMES_OUTSIDE
    check_responses(llm)


def test_google_adk_runs_the_tools_and_tells_errors_images_and_structured_results(converse: Converse):
    with LlmDouble(turn(), ALL_DONE) as llm:
        said = converse("google_adk", llm.url)

    assert said == {"text": "All done."}
    assert offered(llm) == NAMES_OUTSIDE
    told = [part["functionResponse"] for part in llm.asked[1]["contents"][-1]["parts"]]
    assert [answer["response"] for answer in told] == [
        {"output": "Ann was there"},
        {"output": "Bob was there"},
        {"error": "fail failed: ValueError: no luck"},
        {"output": "a pixel"},
        {"output": {"came": CAME}},
    ]
    (image,) = told[3]["parts"]
    assert image["inline_data"]["data"].replace("-", "+").replace("_", "/") == PIXEL


def test_smolagents_runs_the_tools_and_tells_errors_and_shows_images(converse: Converse):
    final = Step("", (("final_answer", {"answer": "All done."}),))
    with LlmDouble(turn("self", "class"), final) as llm:
        said = converse("smolagents", llm.url)

    assert said == {
        "text": "All done.",
        "blocked": "The agent blocks the event loop that its tools need. "
        "Run it with `await asyncio.to_thread(agent.run, task)`.",
        "raised": "fail failed: ValueError: bad day",
        "odd": {
            "sent": {"type": "object", "properties": ODD_INPUTS, "required": ["t_class"]},
            "came": {"class": "a"},
        },
    }
    assert offered(llm) == [*NAMES_OUTSIDE, "final_answer"]
    parts = [part for message in llm.asked[1]["messages"][2:] for part in message["content"]]
    assert [part["image_url"]["url"][:22] for part in parts if part["type"] == "image_url"] == [
        "data:image/png;base64,"
    ]
    seen = "\n".join(part["text"] for part in parts if part["type"] == "text")
    for word in ("Ann was there", "Bob was there", "Error: fail failed: ValueError: no luck", "a pixel\n[image/png]"):
        assert word in seen
    assert json.dumps({"came": CAME}, separators=(",", ":")) in seen


def test_the_claude_agent_sdk_serves_the_tools_to_claude_code(converse: Converse):
    """The SDK is the real one; in place of Claude Code it starts a script that says what that program would."""
    said = converse("claude_agent_sdk", "")

    assert [tool["name"] for tool in said["listed"]] == NAMES_OUTSIDE
    ann, bob, failed, picture, awkward, nowhere = said["results"]
    assert [ann["content"][0]["text"], bob["content"][0]["text"]] == ["Ann was there", "Bob was there"]
    assert failed == {"content": [{"type": "text", "text": "fail failed: ValueError: no luck"}], "isError": True}
    assert picture["content"][1] == {"type": "image", "mimeType": "image/png", "data": PIXEL}
    assert awkward["structuredContent"] == {"came": {"config": "a", "self": "b"}}
    assert nowhere["isError"]
    assert said["own"]["isError"]
    assert said["own"]["content"] == failed["content"]


def test_agents_work_over_the_client_objects_of_anthropic_and_openai(converse: Converse):
    refused = Step(status=400, body={"error": {"type": "invalid_request_error", "message": "no such model"}})
    once = (turn(), ALL_DONE)
    with LlmDouble(*(*once, *once, refused) * 3) as llm:
        said = converse("own_client", llm.url)

    ways = [f"{name} {how}" for name in ("anthropic", "openai", "openai-responses") for how in ("streamed", "whole")]
    assert {way: said[way] for way in ways} == {way: ["All done.", "end", 36] for way in ways}
    refusals = [said[f"{name} refused"] for name in ("anthropic", "openai", "openai-responses")]
    assert all(text.startswith("TOOL_UNAVAILABLE") and "no such model" in text for text in refusals), refusals
    assert [body.get("stream", False) for body in llm.asked[:4]] == [True, True, False, False]
    assert all(PIXEL in json.dumps(body) for body in llm.asked[1::5])
