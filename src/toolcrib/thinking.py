"""From configuration to the model that chats and runs errands; it is asked for nothing before it is needed."""

from collections.abc import Mapping

from toolcrib.config.references import resolve
from toolcrib.config.thinking import ModelConfig
from toolcrib.core.errors import ConfigError
from toolcrib.core.subagent import SubAgents
from toolcrib.models.choose import parse_model, with_surroundings
from toolcrib.models.model import ModelSettings


def model_settings(chosen: str | None, config: ModelConfig, env: Mapping[str, str]) -> ModelSettings:
    """The model of the command line, or else the configured one, with its key and address."""
    if chosen:
        return with_surroundings(parse_model(chosen), env)
    if not config.model:
        raise ConfigError(
            "There is no model to talk to.",
            hint="Name one with --model, such as --model ollama:llama3.2, or set [model] in the configuration.",
        )

    def read(name: str) -> str:
        return resolve(getattr(config, name), env, field=f"model.{name}")

    settings = ModelSettings(config.provider, read("model"), read("url"), read("key"), config.timeout_s)
    return with_surroundings(settings, env)


def model_key(config: ModelConfig, env: Mapping[str, str]) -> str:
    """The key of the configured model; empty if there is none."""
    try:
        return model_settings(None, config, env).key
    except ConfigError:
        return ""


def errands_of(config: ModelConfig, env: Mapping[str, str]) -> SubAgents | None:
    """Who runs errands: the configured model, or nobody."""
    if not config.model:
        return None
    from toolcrib.agents.errands import Errands
    from toolcrib.models.http_model import HttpModel

    return Errands(lambda: HttpModel(model_settings(None, config, env)), config.max_tokens)
