"""What was read is what is passed on."""

import msgspec
import pytest

from toolcrib.schema.check import drop_repeats


@pytest.mark.parametrize(
    ("data", "passed_on"),
    [
        (b'{"rows":[{"a":1,"a":2}]}', b'{"rows":[{"a":2}]}'),
        (b'{"rows":[{"a":1,"\\u0061":[]}]}', b'{"rows":[{"a":[]}]}'),
        (b'{"rows":[{"a":1.00,"b":2}, {}]}', b'{"rows":[{"a":1.00,"b":2}, {}]}'),
        (b'{"rows":[{"a":1.5}]}', b'{"rows":[{"a":1.5}]}'),
    ],
)
def test_data_that_were_read_are_passed_on_as_they_were_read(data, passed_on):
    """Each member once, however deep; all else stays as it was written."""
    raw, clean = (b'{"content":[],"structuredContent":%b}' % part for part in (data, passed_on))

    assert drop_repeats(raw, msgspec.json.decode(data)) == clean


def test_repeated_members_are_not_hidden_behind_clean_ones():
    """What ends like a result without repeated members need not be one."""
    raw = b'{"structuredContent":{"a":1,"a":2},"content":[],"own":{"b":0,"structuredContent":{"a":2}}}'

    assert drop_repeats(raw, {"a": 2}).startswith(b'{"structuredContent":{"a":2},"content":')
