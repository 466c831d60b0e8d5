"""Every store in PostgreSQL over a line that is cut, at one question after the other.

``./dev bench faults`` cuts at each, in every way; here every third is cut, in one way or the other.
"""

import pytest
from bench.faults.cuts import TableTrials
from bench.faults.tables import TABLES
from tests.fleet.counting_wire import a_counting_wire


@pytest.mark.parametrize("name", TABLES)
async def test_wherever_the_line_is_cut_nothing_acknowledged_is_lost_or_there_twice(name, postgres, store_settings):
    """The error says what to do, nothing is half there, and the store goes on when the line is whole."""
    with a_counting_wire(postgres.port) as wire:
        tally = await TableTrials(name, wire, store_settings).cut_each("before", "after", every=3)

    assert tally.wrong == []
    assert tally.tried > 3
