import pytest

from toolcrib.config.foreign.references import ForeignDialect, ForeignReferences, to_variable


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("${env:X}", "${X}"),
        ("${X}", "${X}"),
        ("${X:-a b}", "${X:-a b}"),
        ("${env:X:-d}", "${X:-d}"),
        ("$X", "${X}"),
        ("%X%", "${X}"),
        ("Bearer $X", "Bearer ${X}"),
        ("{env:X}", "${X}"),
        ("a$X", "a$X"),
        ("cost: $X now", "cost: $X now"),
        ("${userHome}/x${/}y", "${HOME}/x/y"),
        ("100%", "100%"),
    ],
)
def test_references_of_all_programs_become_ours(written, expected):
    """Never resolved; ``$X`` inside other text belongs to a shell, unless the program says otherwise."""
    assert ForeignReferences("s", ForeignDialect()).translate(written, whole=True) == expected


def test_a_program_that_expands_everywhere_is_read_that_way():
    """Gemini CLI does."""
    references = ForeignReferences("s", ForeignDialect(shell_references=True))

    assert references.translate("a=$X;%Y%") == "a=${X};${Y}"


@pytest.mark.parametrize(
    "written", ["${file:x}", "${command:x}", "{file:x}", "{{USER}}", "${a b}", "${workspaceFolder}"]
)
def test_what_only_the_other_program_can_fill_in_is_missing(written):
    """It stays as written, so that nothing is guessed."""
    references = ForeignReferences("s", ForeignDialect())

    assert references.translate(written) == written
    assert len(references.missing) == 1


def test_an_input_takes_its_default_unless_it_is_secret():
    """And is named once however often it is used."""
    inputs = {"a-b": {"description": "A?", "default": "x"}, "k": {"default": "hush", "password": True}}
    references = ForeignReferences("s", ForeignDialect(inputs=inputs))

    assert references.translate("${input:a-b}${input:a-b}${input:k}") == "${A_B:-x}${A_B:-x}${K}"
    assert references.notes == ["Set A_B: A?", "Set K: k."]


@pytest.mark.parametrize(("name", "expected"), [("api-key", "API_KEY"), ("1st", "INPUT_1ST"), ("ü", "INPUT")])
def test_a_variable_is_named_so_that_a_shell_can_set_it(name, expected):
    """Letters, digits, underscores."""
    assert to_variable(name) == expected
