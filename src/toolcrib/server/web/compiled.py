"""Compiled templates, kept for the whole process: many sites (each with its own values and filters) share the code.

Loads jinja2: import it late.
"""

from types import CodeType
from typing import ClassVar

from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """Keeps code in memory only: nothing on disk could be exchanged for something else."""

    _known: ClassVar[dict[tuple[str, str], CodeType]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was compiled of the same text."""
        bucket.code = self._known.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled now."""
        if bucket.code is not None:
            self._known[bucket.key, bucket.checksum] = bucket.code
