"""The strictest of several layers: what counts, where it was said, and what it overrules."""

import pytest

from toolcrib.config.merge import MergedOrigins, _own_layers, strictest_of_server, strictest_settings
from toolcrib.config.model import DEFAULT, Layer, Origin, Overruled, ServerEntry, ToolConfig

HERE = Origin("here")


def entry(*, adjusts: bool = False, **fields: object) -> ServerEntry:
    return ServerEntry(fields, HERE, adjusts=adjusts)


def fields_of(name: str, *layers: Layer) -> dict:
    """The fields of the server as the last layer has it, under the rules of all."""
    return dict(strictest_of_server(name, layers[-1].servers[name], layers, MergedOrigins()).fields)


def test_a_table_of_rules_is_joined_key_by_key_with_where_each_was_said():
    """By the line of the key, else of the table, else by the place alone; the whole is the last one's that has it."""
    layers = (
        Layer(
            "one",
            {"security.policies": {"a": "deny", "b": "allow"}},
            origins={"security.policies": Origin("one", 2), "security.policies.a": Origin("one", 3)},
        ),
        Layer(
            "two", {"security.policies": {"a": "allow", "c": "ask"}}, origins={"security.policies": Origin("two", 5)}
        ),
        Layer("three", {"security.policies": {"d": "ask"}}),
        Layer("four"),
    )
    found = MergedOrigins()

    settings = strictest_settings(layers, found)

    assert settings == {"security.policies": {"a": "deny", "b": "allow", "c": "ask", "d": "ask"}}
    assert found.overruled == {"security.policies.a": (Overruled("allow", Origin("two", 5)),)}
    assert found.origins == {
        "security.policies": Origin("three"),
        "security.policies.a": Origin("one", 3),
        "security.policies.b": Origin("one", 2),
        "security.policies.c": Origin("two", 5),
        "security.policies.d": Origin("three"),
    }


def test_what_counts_only_together_comes_from_the_first_who_says_any_of_it():
    """And nothing else of it is told to come from anywhere; other rules are everybody's."""
    layers = (
        Layer("silent", {"serve.auth": "required"}),
        Layer("user", {"auth.issuer": "mine"}, origins={"auth.issuer": Origin("user", 1)}),
        Layer("project", {"auth.jwks": "theirs"}, origins={"auth.jwks": Origin("project", 1)}),
    )
    found = MergedOrigins()

    assert strictest_settings(layers, found) == {"serve.auth": "required", "auth.issuer": "mine"}
    assert found.origins == {"serve.auth": Origin("silent"), "auth.issuer": Origin("user", 1)}


@pytest.mark.parametrize(
    ("general", "origins", "own", "isolation"),
    [
        ("confined", {}, {"isolation": "none"}, "confined"),
        ("confined", {"isolation.level": DEFAULT}, {"isolation": "none"}, "none"),
        ("confined", {}, {}, None),
    ],
    ids=["said by somebody", "toolcrib's default", "nothing particular"],
)
def test_what_is_said_in_general_counts_against_what_is_said_in_particular(general, origins, own, isolation):
    """Not toolcrib's own default, and not where nobody says anything of the server."""
    layers = (
        Layer("user", {"isolation.level": general}, origins=origins),
        Layer("project", servers={"web": entry(command="web", **own)}),
    )

    assert fields_of("web", *layers).get("isolation") == isolation


def test_of_a_server_at_an_address_only_what_concerns_programs_is_left_alone():
    user = entry(url="https://mine", policy="deny", isolation="confined")
    project = entry(url="https://theirs", policy="allow", isolation="none")

    fields = fields_of("web", Layer("user", servers={"web": user}), Layer("project", servers={"web": project}))

    assert fields == {"url": "https://theirs", "policy": "deny", "isolation": "none"}


def test_a_server_is_spoken_of_from_the_layer_on_that_declares_it():
    """A layer that only gives rules declares nothing; where nobody declares it, everybody else speaks of it."""
    old, new = Layer("old", servers={"web": entry(command="a")}), Layer("new", servers={"web": entry(command="b")})
    rules = Layer("rules", servers={"web": entry(command="c")}, is_only_rules=True)
    adjusting = Layer("adjusting", servers={"web": entry(adjusts=True, ttl_s=1.0)})
    other = Layer("other", servers={"files": entry(command="d")})

    assert _own_layers("web", (old, new, adjusting, rules, other)) == (new, adjusting, other)
    assert _own_layers("web", (adjusting, rules, other)) == (adjusting, other)


def test_of_a_tool_that_a_replaced_server_had_only_rules_are_left():
    """What the new entry says of a tool stays, even if it says nothing out of the ordinary."""
    user = {"slow": ToolConfig(timeout_s=9.0), "drop": ToolConfig(policy="deny")}
    project = {"plain": ToolConfig()}

    fields = fields_of(
        "web",
        Layer("user", servers={"web": entry(command="a", tools=user)}),
        Layer("project", servers={"web": entry(command="b", tools=project)}),
    )

    assert fields["tools"] == {"drop": ToolConfig(policy="deny"), "plain": ToolConfig()}
