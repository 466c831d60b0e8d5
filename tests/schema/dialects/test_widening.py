"""Whatever the schema: the provider takes it, the model may say all that the tool takes, our check has the rest."""

from random import Random

import jsonschema_rs
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.schema.dialects.rules import CHECKS
from tests.schema.dialects.strategies import make_arguments, make_schema

from toolcrib.core.offers import Tool
from toolcrib.schema.check import compile_check
from toolcrib.schema.dialects import DIALECTS
from toolcrib.schema.problems import describe

SEEDS = st.integers(0, 2**32)


def offered(name, schema):
    """The offer of one tool, and its schema as the provider's own rules let it through."""
    offer = DIALECTS[name].offer([Tool("t", input_schema=schema)])
    return offer, CHECKS[name](offer.definitions[0]) if offer.definitions else None


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=250, deadline=None)
@given(seed=SEEDS)
@example(seed=1964304)
def test_a_view_is_legal_and_takes_all_that_the_tool_takes(name, seed):
    """Never less than the original; what it lets through besides is caught by the check, with words to act on."""
    random = Random(seed)
    schema = make_schema(random)
    offer, view = offered(name, schema)
    takes = jsonschema_rs.Draft202012Validator(view, validate_formats=False).is_valid if view else lambda _: False
    original = compile_check(schema)
    aliases = offer.parameters["t"].aliases if offer.parameters else {}

    for arguments in [make_arguments(random) for _ in range(0 if original.unchecked_reason else 20)]:
        said = {aliases.get(key, key): value for key, value in arguments.items()}
        if original.accepts(arguments):
            assert takes(said), (schema, arguments, view)
        elif takes(said):
            assert describe(original.problems(arguments), schema)
        assert offer.call("t", said) == ("t", arguments)


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_malformed_rules_do_not_get_out(name, seed):
    """One of them, and the provider refuses all tools."""
    offer, view = offered(name, make_schema(Random(seed), malformed=True))

    assert view is not None or "not an object" in offer.left_out["t"]


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
@example(seed=939941)
def test_what_has_been_reduced_is_not_reduced_further(name, seed):
    """A definition made into a tool again is offered as it is."""
    first = offered(name, make_schema(Random(seed)))[1]
    assume(first is not None)  # what cannot be offered at all is reduced to nothing

    again = offered(name, first)[1]

    assert again == first
