"""All APIs that are spoken, by name."""

from collections.abc import Mapping

from toolcrib.core.errors import ConfigError, did_you_mean
from toolcrib.models.anthropic import ANTHROPIC
from toolcrib.models.api import Api
from toolcrib.models.ollama import OLLAMA
from toolcrib.models.openai_chat import OPENAI
from toolcrib.models.openai_responses import RESPONSES

APIS: Mapping[str, Api] = {api.name: api for api in (ANTHROPIC, OPENAI, RESPONSES, OLLAMA)}


def find_api(name: str) -> Api:
    """The API of that name."""
    if name not in APIS:
        hint = did_you_mean(name, set(APIS)) or f"Known are {', '.join(APIS)}."
        raise ConfigError(f"There is no model provider {name!r}.", hint=hint)
    return APIS[name]
