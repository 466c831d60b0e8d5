"""``delegate`` with a model behind it: a sub-agent that uses its caller's tools, within its budget."""

from tests.doubles.llm import LlmDouble, Step

from toolcrib import open_crib
from toolcrib.config.model import Config
from toolcrib.config.sections import ModelConfig, WorkspaceConfig
from toolcrib.stores.paths import Environment


def crib(folder, llm):
    (folder / "work").mkdir(exist_ok=True)
    around = Environment(env={"HOME": str(folder)}, cwd=folder)
    workspace = WorkspaceConfig(enabled=True, root=str(folder / "work"))
    config = Config(workspace=workspace, model=ModelConfig("ollama", "tiny", llm.url))
    return open_crib(config, surroundings=around)


async def test_a_sub_agent_uses_tools_and_brings_back_an_answer_and_a_trace(tmp_path):
    steps = (Step("", (("file_read", {"path": "note.txt"}),)), Step("The note says 42."))
    with LlmDouble(*steps) as llm:
        async with crib(tmp_path, llm) as made:
            (tmp_path / "work" / "note.txt").write_text("42\n")
            result = await made.call("delegate", {"task": "What does the note say?"})

    data = result.structured
    assert (data["answer"], data["complete"], data["model"]) == ("The note says 42.", True, "ollama:tiny")
    assert [(used["tool"], used["success"]) for used in data["trace"]] == [("file_read", True)]
    assert data["spent"]["turns"] == 2
    offered = {tool["function"]["name"] for tool in llm.asked[0]["tools"]}
    assert "file_read" in offered
    assert not offered & {"delegate", "file_write", "bash"}


async def test_a_sub_agent_stops_at_its_budget(tmp_path):
    with LlmDouble(*[Step("", (("file_list", {}),))] * 9) as llm:
        async with crib(tmp_path, llm) as made:
            result = await made.call("delegate", {"task": "Go on for ever.", "budget": {"turns": 2}})

    assert result.structured["complete"] is False
    assert len(llm.asked) == 2


async def test_a_model_that_is_away_is_a_failed_result(tmp_path):
    with LlmDouble() as llm:
        pass
    async with crib(tmp_path, llm) as made:
        result = await made.call("delegate", {"task": "Anything."})

    assert result.error is not None
    assert "ollama:tiny gave no answer" in result.error.message
