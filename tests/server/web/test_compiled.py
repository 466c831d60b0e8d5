"""Compiled templates: compiled once in a process, and anew where the text is another."""

import jinja2

from toolcrib.server.web.compiled import CompiledTemplates


def template(text: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"page.html": text}), bytecode_cache=CompiledTemplates(), autoescape=True
    )
    return environment.get_template("page.html")


def test_sites_share_what_was_compiled_of_the_same_text(monkeypatch):
    """Another text under the same name is compiled for itself."""
    monkeypatch.setattr(CompiledTemplates, "_known", {})
    first, second, other = template("Hello {{ name }}"), template("Hello {{ name }}"), template("Bye {{ name }}")

    assert first.root_render_func.__code__ is second.root_render_func.__code__
    assert [each.render(name="<b>") for each in (first, second, other)] == [
        "Hello &lt;b&gt;",
        "Hello &lt;b&gt;",
        "Bye &lt;b&gt;",
    ]
