"""An agent in a few words."""

import os
from collections.abc import Mapping
from typing import Any

from toolcrib.agents.loop import Agent, AgentSettings, Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.choose import parse_model, with_surroundings
from toolcrib.models.http_model import HttpModel
from toolcrib.models.model import Model
from toolcrib.models.own_client import OwnClient


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
    return HttpModel(with_surroundings(parse_model(model), os.environ if env is None else env))
