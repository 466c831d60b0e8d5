"""A dialect turns tools into an offer: definitions a provider takes, and the way back from what a model answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
from msgspec.structs import replace

from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Tool
from toolcrib.schema.dialects.merge import is_valid
from toolcrib.schema.dialects.names import TOOL_NAMES, NameRule, NameTable, view_with_names
from toolcrib.schema.dialects.reduce import Irreducible, ReducedSchema, reduce_schema
from toolcrib.schema.dialects.subset import Subset
from toolcrib.schema.dialects.words import add_words

SHORTEST_NAMES = 16
LONGEST_NAMES = 64

Definition = dict[str, Any]


class Options(msgspec.Struct, frozen=True):
    """How tools are offered."""

    name_limit: int = LONGEST_NAMES
    """Names are no longer than this; some clients put their own words before them and want 46."""
    description_limit: int | None = None
    """Descriptions are cut to this many characters; Azure's OpenAI wants 1024."""
    most_tools: int | None = None
    """How many tools at most; ``None`` leaves it to the provider's own limit."""
    strict: bool = True
    """Whether OpenAI shall hold the model to the schema, where that changes nothing of what a tool takes."""
    loaded: frozenset[str] | None = None
    """Tools the model knows from the start, all others are for it to search; ``None``: it knows them all."""
    search: Literal["bm25", "regex"] = "bm25"
    """How Anthropic searches."""

    def __post_init__(self) -> None:
        if not SHORTEST_NAMES <= self.name_limit <= LONGEST_NAMES:
            raise CallerError(
                f"Names cannot be limited to {self.name_limit} characters.",
                hint=f"Choose from {SHORTEST_NAMES} to {LONGEST_NAMES}.",
            )


class Shown(msgspec.Struct, frozen=True):
    """One tool, ready to be written in a provider's form."""

    name: str
    """As it goes out."""
    tool: Tool
    view: ReducedSchema
    description: str
    is_deferred: bool = False


SchemaView = Callable[[Tool, Options], tuple[ReducedSchema, NameTable | None]]


class DialectOffer(msgspec.Struct, frozen=True):
    """What a model is offered, and what its answers mean."""

    definitions: Sequence[Definition]
    """One for each tool, in the order they came."""
    tools: Sequence[Definition]
    """What belongs into the request's ``tools``: the definitions, in the wrapping the provider wants."""
    names: NameTable
    left_out: Mapping[str, str] = {}
    """Tools the provider would refuse the whole request for, by their own names, and why."""
    parameters: Mapping[str, NameTable] = {}
    """For tools some of whose parameters have another name outside: which."""

    def original(self, name: str) -> str:
        """The tool a model means by a name."""
        return self.names.original(name)

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The tool a model means and its arguments under their own names."""
        original = self.original(name)
        parameters = self.parameters.get(original, _NO_NAMES)
        return original, {parameters.original(key): value for key, value in arguments.items()}


_NO_NAMES = NameTable()


class Dialect(msgspec.Struct, frozen=True):
    """How one provider wants its tools."""

    name: str
    view: SchemaView
    """The schema as it goes out, and the names of its parameters where they are others."""
    define: Callable[[Shown, Options], Definition]
    wrap: Callable[[Sequence[tuple[Shown, Definition]], Options], list[Definition]]
    most_tools: int | None = None
    """How many tools the provider takes in one request."""
    defers: bool = False
    """Whether the provider can search for tools that a model does not know from the start."""
    names: NameRule = TOOL_NAMES
    """What the names of tools may look like."""
    options: Options = Options()

    def with_options(self, options: Options) -> Self:
        """The same dialect, otherwise."""
        if options.loaded is not None and not self.defers:
            raise CallerError(
                f"{self.name} cannot load tools later.",
                hint="anthropic and openai-responses can; or offer fewer tools.",
            )
        return replace(self, options=options)

    def offer(self, tools: Iterable[Tool]) -> DialectOffer:
        """The tools in the provider's form, under their names in the catalogue; what it would refuse is left out."""
        given = list(tools)
        names = NameTable.of((tool.name for tool in given), self.names.within(self.options.name_limit))
        shown: dict[str, Shown] = {}
        left_out: dict[str, str] = {}
        parameters: dict[str, NameTable] = {}
        for tool in given:
            try:
                self._refuse_too_many(tool, shown)
                view, table = self._checked_view(tool)
            except Irreducible as reason:
                left_out.setdefault(tool.name, str(reason))
                continue
            shown[tool.name] = self._shown(names.alias(tool.name), tool, view)
            if table is not None:
                parameters[tool.name] = table
        pairs = [(one, self.define(one, self.options)) for one in shown.values()]
        definitions = [definition for _, definition in pairs]
        return DialectOffer(definitions, self.wrap(pairs, self.options), names, left_out, parameters)

    def _refuse_too_many(self, tool: Tool, shown: Mapping[str, Shown]) -> None:
        if tool.name in shown:
            raise Irreducible("another tool has the same name")
        most = self.most_tools if self.options.loaded is None else None
        if (limit := self.options.most_tools or most) is not None and len(shown) >= limit:
            raise Irreducible(f"{self.name} takes at most {limit} tools at once")

    def _checked_view(self, tool: Tool) -> tuple[ReducedSchema, NameTable | None]:
        try:
            view, table = self.view(tool, self.options)
        except RecursionError:
            raise Irreducible("its schema is too intricate") from None
        if not is_valid(view.schema):
            raise Irreducible("its schema is not valid JSON Schema")
        return view, table

    def _shown(self, name: str, tool: Tool, view: ReducedSchema) -> Shown:
        text = add_words(tool.description or tool.title, view.rules, self.options.description_limit)
        loaded = self.options.loaded
        return Shown(name, tool, view, text, is_deferred=loaded is not None and tool.name not in loaded)


def view_in(subset: Subset, parameters: NameRule | None = None) -> SchemaView:
    """What shows of a tool's schema to a provider that takes this subset, and names of parameters by this rule."""

    def view(tool: Tool, _options: Options) -> tuple[ReducedSchema, NameTable | None]:
        if parameters is None:
            return reduce_schema(tool.input_schema, subset), None
        return view_with_names(tool.input_schema, subset, parameters)

    return view


def one_by_one(pairs: Sequence[tuple[Shown, Definition]], _options: Options) -> list[Definition]:
    """Definitions that go into the request as they are."""
    return [definition for _, definition in pairs]
