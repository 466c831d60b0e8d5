"""Shelter: what must be isolated does not run where that is not proven."""

import pytest

from toolcrib.calls.layers.permit import shelter
from toolcrib.calls.pipeline import Subject
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.kinds import IsolationLevel
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Request, Result

DONE = Result({"content": []})
CONFINED, NONE = IsolationLevel.CONFINED, IsolationLevel.NONE
MINIMUM = {"system": "confined"}


async def run(_: Request) -> Result:
    return DONE


def subject(level: SecurityLevel = SecurityLevel.SYSTEM) -> Subject:
    return Subject("srv__exec", "srv", Tool("exec", security_level=level))


async def asked_for_nothing(_: Subject) -> None:
    raise AssertionError


def test_a_tool_of_a_level_that_needs_no_isolation_has_no_such_layer():
    assert shelter(MINIMUM, asked_for_nothing)(subject(SecurityLevel.WRITE), run) is run


@pytest.mark.parametrize(("has", "passes"), [(None, True), (CONFINED, True), (NONE, False)])
async def test_a_tool_runs_where_its_level_is_proven_or_not_on_this_machine(has, passes):
    """And the refusal is told as a decision."""

    async def isolation_of(of: Subject) -> IsolationLevel | None:
        assert of.name == "srv__exec"
        return has

    call = Request("srv__exec", "exec", {})
    step = shelter(MINIMUM, isolation_of)(subject(), run)
    if passes:
        assert await step(call) is DONE
        assert call.context.decision == ""
    else:
        with pytest.raises(PermissionDenied, match=r"^srv__exec was not run\. "):
            await step(call)
        assert call.context.decision == "refused: not isolated"
