"""What a user imports: the names are there, the errors are documented, and importing costs next to nothing."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import toolcrib
from toolcrib.core import errors

ERRORS = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.ToolcribError) and error.__module__ == errors.__name__
]


def test_all_names_every_public_name_and_nothing_else():
    """``__all__`` is what ``dir`` of a fully loaded package adds to the ordinary."""
    lazy = {*toolcrib._HOMES, "errors", "__version__"}

    assert sorted(toolcrib.__all__) == toolcrib.__all__
    assert set(toolcrib.__all__) == lazy


@pytest.mark.parametrize("name", toolcrib.__all__)
def test_every_public_name_can_be_imported(name):
    """And is the very object of its home."""
    value = getattr(toolcrib, name)

    if name in toolcrib._HOMES:
        assert value is getattr(importlib.import_module(toolcrib._HOMES[name]), name)


@pytest.mark.parametrize("name", sorted({*toolcrib._HOMES} - {"Layer", "Step", "tool", "open_crib", "open_profile"}))
def test_every_public_class_says_what_it_is(name):
    """Its docstring is its documentation."""
    assert inspect.getdoc(getattr(toolcrib, name))


def test_an_unknown_name_is_an_attribute_error():
    """As everywhere in Python."""
    with pytest.raises(AttributeError, match="module 'toolcrib' has no attribute 'Crip'"):
        _ = toolcrib.Crip


def test_importing_toolcrib_loads_neither_asyncio_nor_msgspec():
    """The command line stays quick, and so does everybody who only wants a name."""
    script = (
        "import sys, toolcrib; print(sorted({'asyncio', 'msgspec', 'httptools', 'jsonschema_rs', 'tomlkit', 'uvloop'}"
        " & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=150)

    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_a_code_and_a_reason_to_exist(error):
    """One of the published codes; the docstring says when it is raised."""
    assert error.code in errors.TOOL_CODES
    assert inspect.getdoc(error)


def test_the_tree_in_the_documentation_is_the_tree_of_the_classes():
    """Every class stands under its parent."""
    drawn: dict[str, str] = {}
    path: list[str] = []
    for prefix, name in re.findall(r"^    ([│├└─ ]*)(\w+)", errors.__doc__.partition("::")[2], re.MULTILINE):
        depth = len(prefix) // 4
        path = [*path[:depth], name]
        drawn[name] = path[depth - 1] if depth else "Exception"

    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in ERRORS}


@pytest.mark.parametrize("code", sorted(errors.TOOL_CODES))
def test_every_code_is_raised_by_some_error(code):
    """No code is published that cannot happen."""
    assert code in {error.code for error in ERRORS}


def test_retryable_is_decided_by_the_code_alone():
    """In one place."""
    assert {code for code in errors.TOOL_CODES if errors.is_retryable(code)} == {
        "TOOL_UNAVAILABLE",
        "TOOL_TIMEOUT",
        "TOOL_RATE_LIMITED",
    }
    assert all(error.retryable.fget is errors.ToolcribError.retryable.fget for error in ERRORS)


def test_the_shipped_test_doubles_are_named():
    """``toolcrib.testing`` is part of what users import."""
    testing = importlib.import_module("toolcrib.testing")

    assert all(inspect.getdoc(getattr(testing, name)) for name in testing.__all__)
