"""What a source offers: tools, resources, resource templates, prompts and skills, each one frozen definition."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import UNSET

from toolcrib.core.limits import UNLIMITED, ToolLimits

JsonObject = Mapping[str, Any]

OPEN_OBJECT: JsonObject = {"type": "object"}


class SecurityLevel(StrEnum):
    """How far a tool reaches; each level includes the caution of those before it."""

    READ_ONLY = "read_only"
    WRITE = "write"
    ADMIN = "admin"
    SYSTEM = "system"

    @property
    def rank(self) -> int:
        """How far it reaches, from 0; what counts when levels are compared."""
        return _RANKS[self]


_RANKS = {level: rank for rank, level in enumerate(SecurityLevel)}


class Category(StrEnum):
    """What a tool is for."""

    SEARCH = "search"
    DOCUMENT = "document"
    COLLECTION = "collection"
    ADMIN = "admin"
    ANALYSIS = "analysis"


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A tool on its way out: why, and what to use instead."""

    reason: str
    use_instead: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One way to call a tool, checked against its schema at registration."""

    arguments: JsonObject
    description: str = ""
    expected_output: Any = UNSET
    """What the tool gives for them, as JSON; checked against its output schema, and by ``testing.run_examples``."""


class OfferKind(StrEnum):
    """What is offered."""

    TOOL = "tool"
    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"
    SKILL = "skill"


class RequestKind(StrEnum):
    """What is asked of an offer; the audit log knows a request by this word."""

    CALL = "call"
    READ = "read"
    GET = "get"
    COMPLETE = "complete"
    TASK = "task"
    """About the work on an earlier call, which is answered later."""
    BROWSE = "browse"
    """What is in a directory of a skill."""


ASKED_OF: Mapping[RequestKind, tuple[OfferKind, ...]] = {
    RequestKind.CALL: (OfferKind.TOOL,),
    RequestKind.READ: (OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL),
    RequestKind.GET: (OfferKind.PROMPT,),
    RequestKind.COMPLETE: (OfferKind.PROMPT, OfferKind.TEMPLATE),
    RequestKind.TASK: (OfferKind.TOOL,),
    RequestKind.BROWSE: (OfferKind.SKILL,),
}
"""Which offers a request can be for, in the order they are looked for."""


def offer_key(kind: OfferKind, name: str) -> str:
    """What tells an offer from all others of its source, or of the catalogue: a tool's name, which has no spaces, or
    the kind and the name."""
    return name if kind is OfferKind.TOOL else f"{kind} {name}"


def verb_for(key: str) -> str:
    """What somebody wants to do who asks for what has this key, as people are told it."""
    kind, _, name = key.partition(" ")
    return "call" if not name else "get" if kind == OfferKind.PROMPT else "read"


@dataclass(frozen=True, slots=True)
class Offer:
    """A definition as its source gave it, with what the configuration says of it."""

    kind: ClassVar[OfferKind]

    name: str
    """What its source knows it by, unprefixed: the name of a tool or prompt, the URI of a resource or template."""
    description: str = ""
    input_schema: JsonObject = field(default_factory=lambda: OPEN_OBJECT)
    """What the arguments of a request must fit."""
    output_schema: JsonObject | None = None
    title: str = ""
    annotations: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    """Fields of the source's definition that toolcrib does not interpret; they pass through untouched."""
    _: KW_ONLY
    security_level: SecurityLevel = SecurityLevel.READ_ONLY
    capabilities: frozenset[str] = frozenset()
    timeout_s: float | None = None
    replayable: bool | None = None
    """What the user says of asking twice; ``None`` leaves it to the source's own word."""
    limits: ToolLimits = UNLIMITED
    """How often, and how often at once, the user lets it be asked for."""
    result_limit: int | None = None
    """Results of more bytes than this are kept; zero is no limit, ``None`` leaves it to the configuration."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parameter names the user wants translated: what a model writes → what the source wants."""
    reads_results: bool = False
    """Whether it is toolcrib's own way to read large results; not for anybody else to set."""

    @property
    def key(self) -> str:
        """What tells it from all other offers of its source."""
        return offer_key(self.kind, self.name)

    @property
    def is_replayable(self) -> bool:
        """Whether asking twice does no more than asking once, by the user's or else its source's word."""
        return self.replayable is not False


@dataclass(frozen=True, slots=True)
class Tool(Offer):
    """Something that can be called."""

    kind: ClassVar[OfferKind] = OfferKind.TOOL

    _: KW_ONLY
    security_level: SecurityLevel = SecurityLevel.WRITE
    version: str = ""
    category: str = ""
    examples: tuple[Example, ...] = ()
    deprecation: Deprecation | None = None
    completions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_replayable(self) -> bool:
        """Whether running it twice does no more than running it once, by the user's or else its own word."""
        if self.replayable is not None:
            return self.replayable
        return self.annotations.get("readOnlyHint") is True or self.annotations.get("idempotentHint") is True


class Resource(Offer):
    """Something that can be read; its name is its URI, the label that MCP calls name is in ``extra``."""

    __slots__ = ()  # and no dataclass of its own: making one takes 2 ms of every start
    kind: ClassVar[OfferKind] = OfferKind.RESOURCE


class ResourceTemplate(Offer):
    """Many resources at once; its name is a URI template."""

    __slots__ = ()  # and no dataclass of its own: making one takes 2 ms of every start
    kind: ClassVar[OfferKind] = OfferKind.TEMPLATE


class Prompt(Offer):
    """Messages to begin with, made from arguments; its ``input_schema`` says which."""

    __slots__ = ()  # and no dataclass of its own: making one takes 2 ms of every start
    kind: ClassVar[OfferKind] = OfferKind.PROMPT


class Skill(Offer):
    """Instructions with the files they need; its name is the URI of its ``SKILL.md``, its entry is in ``extra``."""

    __slots__ = ()  # and no dataclass of its own: making one takes 2 ms of every start
    kind: ClassVar[OfferKind] = OfferKind.SKILL


NAMED_BY = {
    OfferKind.TOOL: "name",
    OfferKind.RESOURCE: "uri",
    OfferKind.TEMPLATE: "uriTemplate",
    OfferKind.PROMPT: "name",
    OfferKind.SKILL: "uri",
}
"""The field of MCP's lists that holds an offer's name."""
_MCP_FIELDS = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})


def to_mcp(offer: Offer, name: str | None = None) -> dict[str, Any]:
    """The definition as MCP's lists show it, under ``name`` if another one is exposed."""
    shown: dict[str, Any] = {NAMED_BY[offer.kind]: name or offer.name}
    if offer.kind is OfferKind.SKILL:
        return {**shown, **offer.extra}
    if offer.title:
        shown["title"] = offer.title
    if offer.description:
        shown["description"] = offer.description
    if offer.kind is OfferKind.TOOL:
        shown["inputSchema"] = offer.input_schema
    if offer.output_schema is not None:
        shown["outputSchema"] = offer.output_schema
    if offer.annotations:
        shown["annotations"] = offer.annotations
    shown.update(offer.extra)
    if isinstance(offer, Tool) and offer.version:  # a server's own ``_meta`` says what it wants
        shown["_meta"] = {**offer.extra.get("_meta", {}), META_TOOL: about_tool(offer)}
    return shown


META_TOOL = "toolcrib/tool"
"""Where MCP's ``_meta`` says of a native tool what MCP has no field for."""


def about_tool(tool: Tool) -> dict[str, Any]:
    """What a definition says besides what MCP has fields for: version, category, examples, timeout, deprecation."""
    gone = tool.deprecation
    said = {
        "version": tool.version,
        "category": tool.category,
        "securityLevel": str(tool.security_level),
        "capabilities": sorted(tool.capabilities),
        "examples": [_example(example) for example in tool.examples],
        "timeoutSeconds": tool.timeout_s,
        "deprecation": None if gone is None else {"reason": gone.reason, "useInstead": gone.use_instead},
    }
    return {key: value for key, value in said.items() if value}


def _example(example: Example) -> dict[str, Any]:
    shown: dict[str, Any] = {"arguments": example.arguments}
    if example.description:
        shown["description"] = example.description
    return shown if example.expected_output is UNSET else {**shown, "expectedOutput": example.expected_output}


def from_mcp(shown: Mapping[str, Any]) -> Tool:
    """The tool behind one entry of ``tools/list``; nothing a server says of itself lowers its security level."""
    output = shown.get("outputSchema")
    return Tool(
        name=str(shown["name"]),
        title=_text(shown.get("title")),
        description=_text(shown.get("description")),
        input_schema=shown.get("inputSchema") or OPEN_OBJECT,
        output_schema=output if isinstance(output, Mapping) else None,
        annotations=_object(shown.get("annotations")),
        extra={key: value for key, value in shown.items() if key not in _MCP_FIELDS},
    )


_OTHERS: Mapping[OfferKind, type[Offer]] = {
    OfferKind.RESOURCE: Resource,
    OfferKind.TEMPLATE: ResourceTemplate,
    OfferKind.PROMPT: Prompt,
    OfferKind.SKILL: Skill,
}


def other_from_mcp(kind: OfferKind, shown: Mapping[str, Any]) -> Offer:
    """The resource, template or prompt behind an entry of its list; raises ``KeyError`` for one without a name."""
    named_by = NAMED_BY[kind]
    if kind is OfferKind.SKILL:
        return _skill_from_mcp(shown)
    return _OTHERS[kind](
        name=str(shown[named_by]),
        title=_text(shown.get("title")),
        description=_text(shown.get("description")),
        input_schema=_prompt_schema(shown.get("arguments")) if kind is OfferKind.PROMPT else OPEN_OBJECT,
        annotations=_object(shown.get("annotations")),
        extra={
            key: value for key, value in shown.items() if key not in (named_by, "title", "description", "annotations")
        },
    )


def _skill_from_mcp(shown: Mapping[str, Any]) -> Offer:
    """The skill behind an entry, which says of itself what its file begins with."""
    said, extra = _object(shown.get("frontmatter")), {key: value for key, value in shown.items() if key != "uri"}
    return Skill(str(shown["uri"]), _text(said.get("description")), title=_text(said.get("name")), extra=extra)


def _prompt_schema(arguments: object) -> JsonObject:
    """What the arguments of a prompt must fit: they are texts, and some must be there."""
    named = [one for one in arguments if isinstance(one, Mapping)] if isinstance(arguments, list) else []
    return {
        "type": "object",
        "properties": {str(one.get("name")): {"type": "string"} for one in named},
        "required": [str(one.get("name")) for one in named if one.get("required") is True],
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
