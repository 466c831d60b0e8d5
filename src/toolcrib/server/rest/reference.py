"""The description as one page for people: static HTML, no script, light or dark as the reader has it."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import msgspec

STYLE = """\
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5c6878;--paper:#fbfbf9;--card:#fff;--line:#e2e4e0;--key:#0b6b53;
--get:#0b6b53;--post:#8a5a00;--put:#6a3fb5;--patch:#6a3fb5;--delete:#b3261e;--code:#f3f4f0}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa6b2;--paper:#14181c;--card:#1b2026;--line:#2c333b;
--key:#5cc8a4;--get:#5cc8a4;--post:#e0b050;--put:#b69cf0;--patch:#b69cf0;--delete:#ff8a80;--code:#232a31}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
.page{display:grid;grid-template-columns:15rem minmax(0,1fr);gap:2.5rem;max-width:78rem;margin:0 auto;
padding:2rem 1.5rem}
nav{position:sticky;top:1.5rem;align-self:start;max-height:calc(100vh - 3rem);overflow:auto;font-size:.9rem}
nav ul{list-style:none;margin:.2rem 0 1rem;padding:0}nav li{margin:.1rem 0}nav strong{color:var(--soft)}
a{color:inherit;text-decoration-color:var(--line);text-underline-offset:.2em}a:hover{text-decoration-color:currentColor}
h1{font-size:2rem;line-height:1.2;margin:0}h2{margin:3rem 0 .3rem;font-size:1.35rem}h3{margin:0;font-size:1rem}
.soft{color:var(--soft)}.lead{max-width:46rem}
article{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.2rem;margin:1rem 0}
article>p{margin:.4rem 0}
code,pre{font:.86em/1.5 ui-monospace,monospace;background:var(--code);border-radius:.3rem}
code{padding:.1em .35em;overflow-wrap:anywhere}pre{padding:.7rem .9rem;overflow:auto;margin:.5rem 0}
.route{display:flex;gap:.7rem;align-items:baseline;flex-wrap:wrap}
.route code{background:none;padding:0;font-size:.95rem}
.verb{font:700 .78rem ui-monospace,monospace;letter-spacing:.04em}
.GET{color:var(--get)}.POST{color:var(--post)}.PUT{color:var(--put)}.PATCH{color:var(--patch)}.DELETE{color:var(--delete)}
.tag{margin-left:auto;font-size:.78rem;color:var(--soft)}
table{border-collapse:collapse;width:100%;margin:.4rem 0;font-size:.9rem}
th{text-align:left;font-weight:600;color:var(--soft);padding:.25rem .8rem .25rem 0}
td{border-top:1px solid var(--line);padding:.3rem .8rem .3rem 0;vertical-align:top}
td:first-child{white-space:nowrap;width:12rem}td:nth-child(2):not(:last-child){width:5rem}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}
@media(max-width:56rem){.page{grid-template-columns:minmax(0,1fr);gap:1rem}nav{position:static;max-height:none;order:1}}
"""
POLICY = (
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)


def render(document: Mapping[str, Any]) -> str:
    """The page."""
    by_tag = _by_tag(document)
    info = document["info"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>toolcrib REST reference</title><style>{STYLE}</style></head>
<body><div class="page"><nav aria-label="Contents">{"".join(_contents(by_tag))}</nav>
<main><h1>toolcrib over REST</h1><p class="soft">Version {escape(info["version"])} ·
<a href="openapi.json">OpenAPI 3.1</a></p><p class="lead">{_prose(info["description"])}</p>
{"".join(_sections(document, by_tag))}
<h2 id="shapes">Shapes</h2>{"".join(_shapes(document["components"]["schemas"]))}
</main></div></body></html>
"""


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Any]]]:
    found: dict[str, list[tuple[str, str, Any]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found[operation["tags"][0]].append((method.upper(), path, operation))
    return {tag: entries for tag, entries in found.items() if entries}


def _contents(by_tag: Mapping[str, list[tuple[str, str, Any]]]) -> Iterator[str]:
    for tag, entries in by_tag.items():
        links = (f'<li><a href="#{op["operationId"]}">{escape(op["summary"])}</a></li>' for _, _, op in entries)
        yield f"<strong>{escape(tag)}</strong><ul>{''.join(links)}</ul>"
    yield '<a href="#shapes">Shapes</a>'


def _sections(document: Mapping[str, Any], by_tag: Mapping[str, list[tuple[str, str, Any]]]) -> Iterator[str]:
    texts = {tag["name"]: tag["description"] for tag in document["tags"]}
    for tag, entries in by_tag.items():
        yield f'<section><h2>{escape(tag)}</h2><p class="soft">{_prose(texts[tag])}</p>'
        yield from (_article(method, path, operation) for method, path, operation in entries)
        yield "</section>"


def _article(method: str, path: str, operation: Mapping[str, Any]) -> str:
    note = "no token needed" if {} in operation["security"] else "needs a token"
    return "".join(
        [
            f'<article id="{operation["operationId"]}"><div class="route">',
            f'<span class="verb {method}">{method}</span> <code>{escape(path)}</code>',
            f'<span class="tag">{note}</span></div>',
            f"<p><strong>{escape(operation['summary'])}.</strong> {_prose(operation.get('description', ''))}</p>",
            *_parameters(operation["parameters"]),
            *_body(operation.get("requestBody")),
            *_answers(operation["responses"]),
            "</article>",
        ]
    )


def _parameters(parameters: list[Mapping[str, Any]]) -> Iterator[str]:
    if parameters:
        yield "<table><tr><th>Parameter</th><th>In</th><th>What it is</th></tr>"
        for found in parameters:
            yield f"<tr><td><code>{escape(found['name'])}</code></td><td>{found['in']}</td>"
            yield f"<td>{_prose(found['description'])}{_choices(found['schema'])}</td></tr>"
        yield "</table>"


def _choices(schema: Mapping[str, Any]) -> str:
    words = " · ".join(f"<code>{escape(str(word))}</code>" for word in schema.get("enum", ()))
    usual = f' <span class="soft">[{escape(str(schema["default"]))}]</span>' if "default" in schema else ""
    return (f": {words}" if words else "") + usual


def _body(body: Mapping[str, Any] | None) -> Iterator[str]:
    if body is not None:
        content = body["content"]["application/json"]
        yield f"<p>Send {_type(content['schema'])}"
        if "example" in content:
            text = msgspec.json.format(msgspec.json.encode(content["example"]), indent=2).decode()
            yield f", for example</p><pre>{escape(text)}</pre>"
        else:
            yield ".</p>"


def _answers(responses: Mapping[str, Any]) -> Iterator[str]:
    problems = []
    for status, response in responses.items():
        if status.startswith("2"):
            found = [f"{_type(part['schema'])} as <code>{media}</code>" for media, part in _content(response)]
            yield f"<p>Answers <code>{status}</code>{' with ' + ', '.join(found) if found else ''}.</p>"
        elif status != "default":
            problems.append(f"<code>{status}</code> {escape(response['description'])}")
    yield f'<p class="soft">Problems: {" · ".join(problems)}</p>'


def _content(response: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from response.get("content", {}).items()


def _shapes(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f'<article id="{name}"><h3>{name}</h3><p class="soft">{_prose(schema.get("description", ""))}</p><table>'
        required = schema.get("required", ())
        for key, part in schema.get("properties", {}).items():
            mark = "" if key in required else ' <span class="soft">optional</span>'
            yield f"<tr><td><code>{escape(key)}</code></td><td>{_type(part)}{mark}</td></tr>"
        yield "</table></article>"


def _type(schema: Any) -> str:
    """A schema in a few words, with links to the shapes."""
    if not isinstance(schema, Mapping) or not schema:
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " · ".join(f"<code>{escape(str(word))}</code>" for word in schema["enum"])
    return _plain_type(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kind, values = schema.get("type", "anything"), schema.get("additionalProperties")
    if kind == "array":
        return f"list of {_type(schema.get('items'))}"
    if kind == "object" and isinstance(values, Mapping) and values:
        return f"object of {_type(values)}"
    return escape(" or ".join(kind) if isinstance(kind, list) else str(kind))


def _prose(text: str) -> str:
    """Text with its `code` as code."""
    parts = escape(" ".join(text.replace("``", "`").split())).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
