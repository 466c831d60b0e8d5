"""What a tool answered, as a person reads it; pictures and sound can be saved to files."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.core.errors import ConfigError

Block = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that is not text."""

    mime_type: str
    data: str

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    def save(self, folder: Path, stem: str) -> Path:
        """Write it to a file of its own."""
        path = folder / f"{stem}{mimetypes.guess_extension(self.mime_type) or '.bin'}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(self.data, validate=True))
        except binascii.Error:
            raise ConfigError(f"The tool's {self.mime_type} is not valid base64.") from None
        return path


def lines_of(blocks: list[Block], folder: Path | None, stem: str) -> Iterator[str]:
    """One text per block; with a folder, attachments are written there and named."""
    safe_stem = re.sub(r"[^\w-]+", "_", stem)
    for number, block in enumerate(blocks, 1):
        attachment = attachment_of(block)
        if attachment is None:
            yield text_of(block)
        elif folder is None:
            yield f"[{attachment.mime_type} {readable_size(attachment.size)}, use --json or --save DIR]"
        else:
            yield str(attachment.save(folder, f"{safe_stem}-{number}"))


def attachment_of(block: Block) -> Attachment | None:
    """The picture, sound or binary resource of a block."""
    if block.get("type") in ("image", "audio"):
        return Attachment(str(block.get("mimeType", "application/octet-stream")), str(block.get("data", "")))
    resource = block.get("resource")
    if isinstance(resource, Mapping) and "blob" in resource:
        return Attachment(str(resource.get("mimeType", "application/octet-stream")), str(resource["blob"]))
    return None


def text_of(block: Block) -> str:
    """The readable part of a block."""
    resource = block.get("resource")
    if isinstance(resource, Mapping):
        return str(resource.get("text", resource.get("uri", "")))
    if block.get("type") == "resource_link":
        return f"{block.get('name', '')} <{block.get('uri', '')}>".strip()
    return str(block.get("text", ""))


def readable_size(size: int) -> str:
    """``812 B``, ``12 kB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
