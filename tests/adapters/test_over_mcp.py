"""Frameworks that share nothing with toolcrib but its address: their agents use its tools over Streamable HTTP."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.conftest import Inside, conversation_of
from tests.adapters.examples import framework_blocks
from tests.adapters.over_mcp import shop
from tests.adapters.over_mcp.shop import PIXEL
from tests.doubles.llm import LlmDouble, Step
from tests.fleet.frameworks import with_model
from tests.fleet.gateway import serving

SERVED = "http://127.0.0.1:7337/mcp"
"""Where `toolcrib serve` answers unless it is told otherwise; in the tests it does so on a free port."""
CONFIG = 'native = ["shop"]\n\n[kb]\nenabled = false\n'
TOOLS = ["fail", "picture", "result_read", "shop_stock"]
ALL_DONE = Step("All done.")
FAILURE = "fail failed: ValueError: no luck"

Converse = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real `toolcrib serve` answers."""
    home = tmp_path_factory.mktemp("shop")
    shutil.copy(str(shop.__file__), home)
    (home / "toolcrib.toml").write_text(CONFIG)
    with serving(home / "toolcrib.toml") as (url, _):
        yield url


@pytest.fixture
def converse(address: str, inside: Inside, tmp_path: Path) -> Converse:
    """Has one conversation inside a framework, with the model at a URL, and returns what it prints."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}

    def run(name: str, model: str) -> Any:
        env = {**kept, **with_model(model), "HOME": str(tmp_path)}
        done = inside(name).run([str(conversation_of(name)), address], env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("code", framework_blocks(over_mcp=True))
def test_examples_run_inside_their_framework(code: str, address: str, run_example: Callable[[str], str]):
    """An example of the docs is a whole program that ends well and says something."""
    assert SERVED in code
    assert run_example(code.replace(SERVED, address)).strip()


def turn(**optional: Any) -> Step:
    """A tool that works, one that fails, and one with a picture, all at once."""
    stock = ("shop_stock", {"item": "bolt", **optional})
    return Step("", (stock, ("fail", {"why": "no luck"}), ("picture", {})))


def counted(**optional: Any) -> Any:
    return {"item": "bolt", "shelf": 1, "near": None, **optional, "left": 120}


def offered(llm: LlmDouble) -> list[str]:
    return [tool["function"]["name"] for tool in llm.asked[0]["tools"]]


def told(llm: LlmDouble) -> list[str]:
    """What came of the tools, as the model reads it, in the order of its calls."""
    answers = [message for message in llm.asked[1]["messages"] if message["role"] == "tool"]
    return [answer["content"] for answer in sorted(answers, key=lambda answer: answer["tool_call_id"])]


def test_crewai_uses_the_tools_over_http_and_tells_errors(converse: Converse):
    left_out = ("shop_stock", {"item": "bolt", "shelf": None, "near": None})
    with LlmDouble(Step("", (*turn(shelf=2, near=None).calls, left_out)), ALL_DONE) as llm:
        said = converse("crewai", llm.url)

    assert said == {"text": "All done."}
    assert offered(llm) == TOOLS
    stock, failed, picture, refused = told(llm)
    assert json.loads(stock) == counted(shelf=2)
    assert failed == FAILURE
    assert picture == "['a pixel']"
    assert "shelf: expected integer, got null" in refused


def test_llama_index_uses_the_tools_over_http_and_tells_errors(converse: Converse):
    with LlmDouble(turn(near=["nut"]), ALL_DONE) as llm:
        said = converse("llama_index", llm.url)

    assert said == {"text": "All done."}
    assert offered(llm) == TOOLS
    stock, failed, picture = told(llm)
    assert f"structured_content={counted(near=['nut'])}" in stock
    assert f"text='{FAILURE}'" in failed
    assert ["is_error=True" in answer for answer in (stock, failed, picture)] == [False, True, False]
    assert "a pixel" in picture
    assert PIXEL in picture
