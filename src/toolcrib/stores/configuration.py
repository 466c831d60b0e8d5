"""Configuration files put in place: one that comes to hold a secret is for its owner alone."""

from pathlib import Path

from toolcrib.config.masks import written_secrets
from toolcrib.config.parse import parse
from toolcrib.stores.files import replace_text


def write_config(path: Path, before: str, after: str) -> None:
    """Put a new text in place; where it adds a secret, nobody else may read the file from then on."""
    if _secrets(after, path) - _secrets(before, path):
        replace_text(path, after, 0o600, keep=0o700)
    else:
        replace_text(path, after)


def _secrets(text: str, path: Path) -> set[str]:
    servers = parse(text, str(path)).servers if text.strip() else {}
    return {secret for entry in servers.values() for secret in written_secrets(entry.fields)}
