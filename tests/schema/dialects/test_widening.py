"""Whatever the schema: the provider takes the definition, the model may say all the tool takes, our check has the rest."""

from random import Random

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schema.dialects.rules import CHECKS
from tests.schema.dialects.strategies import make_arguments, make_schema
from toolcrib.core.tool import Tool
from toolcrib.schema.check import compile_check
from toolcrib.schema.dialects.known import DIALECTS
from toolcrib.schema.problems import describe

SEEDS = st.integers(0, 2**32)


def views(name, seed, schema):
    """What a model may say of a schema, beside what the tool takes; only where our own check is whole."""
    offer = DIALECTS[name].offer([Tool("t", input_schema=schema)])
    assert offer.left_out == {}
    view = CHECKS[name](offer.definitions[0])
    takes = jsonschema_rs.Draft202012Validator(view, validate_formats=False).is_valid
    return offer, takes


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_a_view_is_legal_and_takes_all_that_the_tool_takes(name, seed):
    """Never less than the original; what it lets through besides is caught by the check, with words to act on."""
    random = Random(seed)
    schema = make_schema(random)
    offer, takes = views(name, seed, schema)
    original = compile_check(schema)
    aliases = offer.parameters["t"].aliases if offer.parameters else {}

    for arguments in [make_arguments(random) for _ in range(0 if original.unchecked_reason else 20)]:
        said = {aliases.get(key, key): value for key, value in arguments.items()}
        if original.accepts(arguments):
            assert takes(said), (schema, arguments, offer.definitions[0])
        elif takes(said):
            assert describe(original.problems(arguments), schema)
        assert offer.call("t", said) == ("t", arguments)


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_malformed_rules_do_not_get_out(name, seed):
    """One of them, and the provider refuses all tools."""
    schema = make_schema(Random(seed), malformed=True)

    offer = DIALECTS[name].offer([Tool("t", input_schema=schema)])

    assert CHECKS[name](offer.definitions[0])


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_what_has_been_reduced_is_not_reduced_further(name, seed):
    """A definition made into a tool again is offered as it is."""
    first = CHECKS[name](DIALECTS[name].offer([Tool("t", input_schema=make_schema(Random(seed)))]).definitions[0])

    again = CHECKS[name](DIALECTS[name].offer([Tool("t", input_schema=first)]).definitions[0])

    assert again == first
