"""A bundle is a stranger's zip file: one member is read, within limits."""

import io
import zipfile

import pytest

from toolcrib.config.foreign.packages import MANIFEST_MAX, manifest_text
from toolcrib.core.errors import ConfigError


def bundle(**members: bytes) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return data


def test_only_the_manifest_is_read():
    """Whatever else is inside, and wherever it would like to be unpacked to."""
    data = bundle(manifest_json=b'{"name": "x"}')
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("../../evil", b"x")
        archive.writestr("sub/manifest.json", b"not this one")

    assert manifest_text(data, "x.mcpb") == '{"name": "x"}'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (io.BytesIO(b"PK nothing"), "This bundle cannot be read"),
        (bundle(other_json=b"{}"), "There is no manifest.json in this bundle"),
        (bundle(manifest_json=b" " * (MANIFEST_MAX + 1)), "larger than 1,000,000 bytes"),
        (bundle(manifest_json=b" " * 50_000_000), "larger than 1,000,000 bytes"),
    ],
    ids=["no zip", "no manifest", "too large", "a bomb"],
)
def test_a_bundle_that_cannot_be_meant_is_refused(data, expected):
    """Without unpacking it first."""
    with pytest.raises(ConfigError, match=expected):
        manifest_text(data, "x.mcpb")
