"""Costs: what is not used can be left out, in one step."""

from tests.fleet.running import until
from tests.server.web.site import opened


def test_tools_that_nobody_uses_are_left_out_together(tiny):
    """They are gone from the catalogue, and both decisions are in the audit log."""
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/refresh")
        visitor.post("/tools/tiny__echo/try", do="run", **{"a/text": "hi"})
        until(lambda: 'name="tool:tiny__echo"' not in visitor.get("/costs").text, deadline_s=150, what="a used tool")
        before = visitor.get("/costs").text
        done = visitor.post(
            "/costs/leave-out", **{"tool:tiny__fail": "on", "tool:tiny__hang": "on", "tool:nothing": "on"}
        )
        after = visitor.get("/costs").text
        log = visitor.get("/audit?kind=policy").text

    assert 'name="tool:tiny__fail"' in before
    assert done.status == 303
    assert "tiny__fail" not in after
    assert "tiny__fail" in log


def test_nothing_chosen_changes_nothing(tiny):
    with opened(tiny) as visitor:
        assert visitor.post("/costs/leave-out").status == 422
