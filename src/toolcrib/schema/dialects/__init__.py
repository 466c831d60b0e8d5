"""Dialects: the catalogue's definitions as each model provider wants them."""

from collections.abc import Mapping

from toolcrib.core.errors import CallerError, did_you_mean
from toolcrib.schema.dialects.anthropic import ANTHROPIC
from toolcrib.schema.dialects.gemini import GEMINI
from toolcrib.schema.dialects.offer import Dialect, Options
from toolcrib.schema.dialects.ollama import OLLAMA
from toolcrib.schema.dialects.openai import OPENAI, OPENAI_RESPONSES

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (ANTHROPIC, OPENAI, OPENAI_RESPONSES, GEMINI, OLLAMA)
}


def dialect_of(name: str, options: Options | None = None) -> Dialect:
    """The dialect of that name, with these options."""
    try:
        dialect = DIALECTS[name]
    except KeyError:
        hint = did_you_mean(name, list(DIALECTS)) or f"Known dialects: {', '.join(DIALECTS)}."
        raise CallerError(f"No dialect named {name!r}.", hint=hint) from None
    return dialect.with_options(options) if options else dialect
