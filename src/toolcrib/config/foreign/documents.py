"""The text of another program's file as values with lines: JSON with comments, TOML, or YAML by its name."""

from typing import Any

from toolcrib.config.jsonc import is_blank, read_jsonc
from toolcrib.config.parse import read_toml
from toolcrib.config.written import Written
from toolcrib.core.errors import ConfigError

YAML_INSTALL = "Install it with: pip install 'toolcrib[yaml]'"


def read_document(text: str, where: str) -> Written:
    """The values of a file; a file that cannot be read is an error with its line. An empty one holds nothing."""
    if where.endswith(".toml"):
        return read_toml(text, where)
    if where.endswith((".yaml", ".yml")):
        return Written(where, _read_yaml(text, where))
    return Written(where, {}) if is_blank(text) else read_jsonc(text, where)


def _read_yaml(text: str, where: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError("Reading YAML needs the package PyYAML.", where=where, hint=YAML_INSTALL) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "it cannot be parsed"
        line = mark.line + 1 if mark else None
        raise ConfigError(f"This is not YAML: {reason}.", where=where, line=line) from None
    except (RecursionError, ValueError):
        raise ConfigError("This YAML cannot be read.", where=where) from None
