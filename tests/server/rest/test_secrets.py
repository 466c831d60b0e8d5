"""Secrets over REST: kept and removed, named with who needs them, and never shown again."""

from tests.fleet.running import until
from tests.server.rest.api import serving_api

VALUE = "a-value-that-nobody-sees"


def test_a_secret_is_kept_named_and_removed(program):
    """Who refers to it is started with it; the log of decisions has the name."""
    program.write(program.tiny(more='env = { WORD = "${SECRET_WORD}" }'))
    with serving_api(program) as api:
        kept = api.send("PUT", "/secrets/SECRET_WORD", {"value": VALUE})
        listed = api.send("GET", "/secrets")
        called = api.send("POST", "/tools/tiny__echo/call", {"arguments": {"text": "x"}})
        unfit = [api.send("PUT", path, {"value": value}).status for path, value in BAD]
        gone = [api.send("DELETE", "/secrets/SECRET_WORD").status for _ in range(2)]
        logged = api.send("GET", "/audit?event=secret").body.decode()

    assert (kept.status, called.status, unfit, gone) == (204, 200, [422, 422, 422], [204, 404])
    assert [(one["name"], one["neededBy"]) for one in listed.json["secrets"]] == [("SECRET_WORD", ["tiny"])]
    until(lambda: program.has_noted(f"WORD is {VALUE}"), deadline_s=150, what="a start with the secret")
    assert "SECRET_WORD" in logged
    assert VALUE not in str(listed.body + called.body) + logged


BAD = (("/secrets/A-B", "v"), ("/secrets/A", ""), ("/secrets/A", 1))
