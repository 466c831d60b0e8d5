"""Sub-agents: an errand is one question to an agent of its own, with the tools it was given and no others."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.agents.loop import Agent, AgentSettings, Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.network import Network
from toolcrib.core.offers import Tool
from toolcrib.core.requests import BackChannel, Result, Spent, SubAgentReport, SubAgentTask, SubAgentTools
from toolcrib.models.api import Model
from toolcrib.models.choose import OwnClient, parse_model, with_surroundings
from toolcrib.models.http_model import HttpModel

SYSTEM = (
    "You were sent on an errand by another agent, which sees nothing but your last answer. Use the tools you need, then"
    " answer with everything that was asked for, briefly. Say so if you could not do it."
)


class Errands:
    """Runs errands with one model."""

    def __init__(self, open_model: Callable[[], Model], max_tokens: int = 4096) -> None:
        self._open_model, self._max_tokens = open_model, max_tokens

    async def run(self, errand: SubAgentTask, use: SubAgentTools) -> SubAgentReport:
        """Carry out the errand within its budget of turns and tokens."""
        budget = errand.budget
        settings = AgentSettings(
            system=SYSTEM, max_turns=budget.turns, max_tokens=self._max_tokens, budget=budget.tokens, stream=False
        )
        model = self._open_model()
        task = f"{errand.task}\n\n{errand.context}".strip()
        done = await Agent(_Given(use), model, settings).ask(task)
        return SubAgentReport(done.text, done.reason == "end", Spent(done.turns, done.usage.total), model.name)


class _Given:
    """The tools of an errand, as an agent's toolbox; who calls was settled when they were given."""

    def __init__(self, use: SubAgentTools) -> None:
        self._use = use

    async def tools(self, *, caller: Caller) -> Sequence[Tool]:
        """All of them."""
        del caller
        return self._use.tools

    async def call(self, name: str, arguments: Mapping[str, Any], *, caller: Caller, channel: BackChannel) -> Result:
        """Use one."""
        del caller, channel
        return await self._use.call(name, arguments)


def agent(
    toolbox: Toolbox,
    model: str | Model,
    *,
    client: Any = None,
    caller: Caller = LOCAL_USER,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> Agent:
    """An agent over a Crib. ``model`` is ``provider:model``, or a ``Model``; ``client`` an object of a provider's SDK
    that carries the requests; ``settings`` are those of ``AgentSettings``.
    """
    return Agent(toolbox, _model(model, client, env), AgentSettings(**settings), caller)


def _model(model: str | Model, client: Any, env: Mapping[str, str] | None) -> Model:
    if not isinstance(model, str):
        return model
    if client is not None:
        provider, colon, name = model.partition(":")
        return OwnClient(client, name, provider) if colon else OwnClient(client, model)
    around = os.environ if env is None else env
    return HttpModel(with_surroundings(parse_model(model), around), Network.of(around))
