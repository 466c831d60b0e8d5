"""From a few words to a model: ``anthropic:NAME``, with the key and address its provider's own programs use."""

from collections.abc import Mapping
from dataclasses import replace

from toolcrib.core.errors import ConfigError
from toolcrib.models.apis import find_api
from toolcrib.models.model import ModelSettings

_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "ollama": "OLLAMA_API_KEY",
}
_URLS = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "ollama": "OLLAMA_HOST",
}


def parse_model(words: str) -> ModelSettings:
    """The model that ``provider:model`` names."""
    provider, colon, model = words.partition(":")
    if not colon or not model:
        raise ConfigError(
            f"{words!r} names no model.", hint="Write provider:model, for example ollama:llama3.2 or openai:gpt-5."
        )
    return ModelSettings(find_api(provider).name, model, setting="the")


def with_surroundings(settings: ModelSettings, env: Mapping[str, str]) -> ModelSettings:
    """The settings, completed by the environment variables of the provider."""
    key = settings.key or env.get(_KEYS[settings.provider], "")
    url = settings.url or _address(settings.provider, env.get(_URLS[settings.provider], ""))
    if settings.provider != "ollama" and not key and not url:
        raise ConfigError(
            f"There is no key for {settings.provider}:{settings.model}.",
            hint=f"Set {_KEYS[settings.provider]}, or [model] key in the configuration.",
        )
    return replace(settings, key=key, url=url)


def _address(provider: str, written: str) -> str:
    """What the variable says, as an address of the API: they leave out different parts of it."""
    if not written:
        return ""
    if provider == "ollama":
        address = written if "://" in written else f"http://{written}"
        host = address.replace("//0.0.0.0", "//127.0.0.1")
        return host if ":" in host.split("//", 1)[1] else f"{host}:11434"
    base = written.rstrip("/")
    return f"{base}/v1" if provider == "anthropic" and not base.endswith("/v1") else base
