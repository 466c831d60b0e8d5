"""From a few words to a model: ``anthropic:NAME``, with the key and address its provider's own programs use."""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.core.errors import CallerError, ConfigError, did_you_mean
from toolcrib.models.anthropic import ANTHROPIC
from toolcrib.models.api import Api, ModelFailed, ModelSettings
from toolcrib.models.ollama import OLLAMA
from toolcrib.models.openai_chat import OPENAI
from toolcrib.models.openai_responses import RESPONSES
from toolcrib.models.talk import ModelReply, ModelRequest

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


APIS: Mapping[str, Api] = {api.name: api for api in (ANTHROPIC, OPENAI, RESPONSES, OLLAMA)}
"""All APIs that are spoken."""


def find_api(name: str) -> Api:
    """The API of that name."""
    if name not in APIS:
        hint = did_you_mean(name, set(APIS)) or f"Known are {', '.join(APIS)}."
        raise ConfigError(f"There is no model provider {name!r}.", hint=hint)
    return APIS[name]


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


_WAYS: Mapping[str, str] = {
    "anthropic": "messages.create",
    "openai": "chat.completions.create",
    "openai-responses": "responses.create",
}
ERROR_SHOWN = 300


class OwnClient:
    """Asks through an ``AsyncAnthropic``, ``AsyncOpenAI`` or a variant of them."""

    def __init__(self, client: Any, model: str, provider: str = "") -> None:
        """Without ``provider`` it is found by what the object offers: of OpenAI's two APIs, the chat API."""
        chosen = provider or _provider_of(client)
        self.api: Api = find_api(chosen)
        self.name = f"{chosen}:{model}"
        self._model = model
        self._create = _method(client, _WAYS[chosen]) if chosen in _WAYS else None
        if self._create is None:
            raise CallerError(
                f"{type(client).__name__} cannot be used as a client of {chosen}.",
                hint="Hand over an AsyncAnthropic, an AsyncOpenAI, or one of their variants.",
            )

    async def ask(self, request: ModelRequest) -> AsyncGenerator[str | ModelReply, None]:
        """The words in pieces, then the whole turn; what the object raises is told as ``ModelFailed``."""
        reader = self.api.reader()
        try:
            answered = await self._send(self.api.body(self._model, request))
            if request.stream:
                async for event in answered:
                    if text := reader.feed(_plain(event)):
                        yield text
            else:
                reader.whole(_plain(answered))
        except Exception as error:  # the edge of somebody else's code: whatever it raises becomes one of ours
            raise ModelFailed(f"The model {self.name} gave no answer: {error!s:.{ERROR_SHOWN}}") from error
        yield reader.reply()

    async def _send(self, body: dict[str, Any]) -> Any:
        answered = self._create(**body) if self._create is not None else None
        if not inspect.isawaitable(answered):
            raise CallerError("The client is not an asynchronous one.", hint="Use AsyncAnthropic or AsyncOpenAI.")
        return await answered


def _provider_of(client: Any) -> str:
    return next((name for name, way in _WAYS.items() if _method(client, way) is not None), "openai")


def _method(client: Any, way: str) -> Callable[..., Any] | None:
    found = client
    for step in way.split("."):
        found = getattr(found, step, None)
    return found if callable(found) else None


def _plain(value: Any) -> Mapping[str, Any]:
    """An SDK's object as plain data."""
    return value if isinstance(value, Mapping) else value.model_dump(mode="json", exclude_none=True)
