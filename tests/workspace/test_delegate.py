"""Sub-agents: their own tools and budget, and never more than whoever sent them may."""

import asyncio
from dataclasses import dataclass, field

import pytest

from toolcrib import open_crib
from toolcrib.config.model import Config
from toolcrib.config.sections import ProfileConfig, ProfileTool, WorkspaceConfig
from toolcrib.core.access import Caller, Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Budget, Spent, SubAgentReport, SubAgentTask
from toolcrib.crib.window import ProfileSettings, ProfileView
from toolcrib.stores.paths import Environment


@dataclass
class Scripted:
    """A sub-agent that does what it was told beforehand, and remembers what it was given."""

    script: list = field(default_factory=list)
    errands: list = field(default_factory=list)
    offered: list = field(default_factory=list)
    answers: list = field(default_factory=list)

    async def run(self, errand: SubAgentTask, use) -> SubAgentReport:
        self.errands.append(errand)
        self.offered = [tool.name for tool in use.tools]
        for name, arguments in self.script:
            result = await use.call(name, arguments)
            self.answers.append(result.error.code if result.error else result.text)
        return SubAgentReport("All done.", spent=Spent(turns=2, tokens=100), model="scripted")


@pytest.fixture
def agents():
    return Scripted()


@pytest.fixture
async def crib(work, tmp_path, agents):
    around = Environment(work, {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", "HOME": "/nowhere"})
    config = Config(workspace=WorkspaceConfig(enabled=True))
    async with open_crib(config, surroundings=around, sub_agents=agents) as crib:
        yield crib


async def test_a_sub_agent_answers_with_a_trace(crib, agents):
    agents.script = [("file_read", {"path": "a.txt"}), ("file_read", {"path": "../outside/secret.txt"})]
    done = await crib.call("delegate", {"task": "Read it.", "context": "a.txt", "budget": {"turns": 3}})

    assert done.text == "All done."
    assert agents.errands == [SubAgentTask("Read it.", "a.txt", Budget(turns=3))]
    assert agents.answers == ["     1\talpha\n     2\tbeta", "TOOL_PERMISSION_DENIED"]
    told = done.structured
    assert [(used["tool"], used["success"]) for used in told["trace"]] == [("file_read", True), ("file_read", False)]
    assert (told["spent"]["turns"], told["spent"]["tokens"], told["spent"]["calls"]) == (2, 100, 2)
    assert (told["complete"], told["model"]) == (True, "scripted")


async def test_a_sub_agent_only_reads_unless_it_is_lent_more(crib, agents):
    agents.script = [("file_write", {"path": "new.txt", "content": "x"})]
    await crib.call("delegate", {"task": "x"})
    assert "file_write" not in agents.offered
    assert "delegate" not in agents.offered
    assert agents.answers == ["TOOL_PERMISSION_DENIED"]

    await crib.call("delegate", {"task": "x", "tools": ["file_w*"]})
    assert agents.offered == ["file_write"]
    assert agents.answers[1].startswith("new.txt: created")


async def test_a_sub_agent_never_sends_another(crib, agents):
    agents.script = [("delegate", {"task": "again"})]
    done = await crib.call("delegate", {"task": "x", "tools": ["*"]})

    assert done.success
    assert agents.answers == ["TOOL_PERMISSION_DENIED"]


async def test_what_the_caller_may_not_use_cannot_be_lent(crib, agents):
    careful = Caller("careful", "token", Grants(SecurityLevel.WRITE, tools=("delegate", "file_read")))
    agents.script = [("file_read", {"path": "a.txt"}), ("file_write", {"path": "x", "content": ""})]
    refused = await crib.call("delegate", {"task": "x", "tools": ["file_write"]}, caller=careful)
    lent = await crib.call("delegate", {"task": "x", "tools": ["*"]}, caller=careful)

    assert "No tool that you could lend fits 'file_write'" in refused.error.message
    assert lent.success
    assert agents.offered == ["file_read", "result_read"]
    assert agents.answers[1] == "TOOL_PERMISSION_DENIED"


async def test_calls_beyond_the_budget_fail(crib, agents):
    agents.script = [("file_list", {})] * 3
    await crib.call("delegate", {"task": "x", "budget": {"calls": 2}})

    assert agents.answers[2] == "TOOL_RATE_LIMITED"


async def test_a_sub_agent_that_does_not_come_back_is_given_up(crib, agents):
    gone = asyncio.Event()

    async def wander(errand, use):
        await use.call("file_list", {})
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    agents.run = wander
    done = await crib.call("delegate", {"task": "x", "budget": {"seconds": 0.2}})

    assert "did not come back within 0.2 s" in done.error.message
    assert [used["tool"] for used in done.error.details["trace"]] == ["file_list"]
    assert gone.is_set()


async def test_without_a_model_the_tool_says_what_to_do(work, tmp_path):
    around = Environment(work, {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", "HOME": "/nowhere"})
    async with open_crib(Config(workspace=WorkspaceConfig(enabled=True)), surroundings=around) as crib:
        done = await crib.call("delegate", {"task": "x"})

    assert done.error.code == "TOOL_NOT_IMPLEMENTED"
    assert "There is no model here" in done.error.message
    assert "Set [model] in the configuration" in done.error.message


async def test_a_sub_agent_sent_through_a_profile_has_no_other_tools_than_that(crib, agents):
    """Dressed as they are shown there, and without the one that sent it, whatever that is called."""
    changes = {"delegate": ProfileTool("helper"), "file_read": ProfileTool("read_notes", fixed={"path": "a.txt"})}
    profile = ProfileConfig(tools=("delegate", "file_read", "file_list"), change=changes)
    window = ProfileView(crib, ProfileSettings(profile=profile), "notes")
    agents.script = [("read_notes", {}), ("file_read", {"path": "src/b.py"}), ("file_write", {})]
    done = await window.run(crib.request("helper", {"task": "Look.", "tools": ["*"]}))

    assert done.text == "All done."
    assert sorted(set(agents.offered) - {"result_read"}) == ["file_list", "read_notes"]
    assert agents.answers == ["     1\talpha\n     2\tbeta", "TOOL_PERMISSION_DENIED", "TOOL_PERMISSION_DENIED"]
