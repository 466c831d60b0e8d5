"""The audit log on the page: searched, looked into, verified, exported; and closed to everybody else."""

import json
import sqlite3

import pytest
from tests.fleet.running import until
from tests.server.web.workbench import open_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("audit")) as found:
        for title in ("one", "two"):
            found.owner.post("/tools/plan/try", do="run", **{"a/title": title})
        found.agent("plan", title=7).result()
        failed = "/audit?kind=call&outcome=failed"
        until(lambda: bool(entries(found.owner.get(failed).text)), deadline_s=150, what="all is written")
        yield found


def entries(page: str) -> list[int]:
    rows = page.partition('id="entries"')[2]
    return [int(part.partition('"')[0]) for part in rows.split('href="/audit/')[1:]]


def test_entries_are_listed_newest_first_with_a_chart(bench):
    """Numbers go down."""
    page = bench.owner.get("/audit").text
    found = entries(page)

    assert found == sorted(found, reverse=True)
    assert len(found) >= 4
    assert "Calls per hour" in page
    assert "<rect" in page


def test_entries_are_narrowed_down(bench):
    """By kind, outcome, part of a name, pattern and time; a time that is none is said."""
    owner = bench.owner

    assert len(entries(owner.get("/audit?kind=start").text)) == 1
    assert len(entries(owner.get("/audit?kind=call&tool=la&outcome=success").text)) == 2
    assert len(entries(owner.get("/audit?kind=call&outcome=failed").text)) == 1
    assert len(entries(owner.get("/audit?kind=call&caller=owner@page").text)) == 2
    assert entries(owner.get("/audit?since=2999-01-01").text) == []
    assert entries(owner.get("/audit?until=2000-01-01").text) == []
    assert "is no time" in owner.get("/audit?since=yesterdayish").text
    assert entries(owner.get("/audit?tool=%27%3B+DROP+TABLE+entry").text) == []


def test_one_entry_stands_beside_its_neighbours(bench):
    """With the hashes that tie them together, and the other entries of the same call."""
    seq = entries(bench.owner.get("/audit?kind=call&outcome=success").text)[-1]
    page = bench.owner.get(f"/audit/{seq}").text
    call = page.partition("/audit?call=")[2].partition('"')[0]

    assert f'href="/audit/{seq - 1}"' in page
    assert f'href="/audit/{seq + 1}"' in page
    assert "fits" in page
    assert "does not fit" not in page
    assert f"&#34;seq&#34;: {seq},\n" in page
    assert len(entries(bench.owner.get(f"/audit?call={call}").text)) == 2
    for wrong in ("0", "999999", "x", "1" * 40):
        assert bench.owner.get(f"/audit/{wrong}").status == 404


def test_the_export_is_the_whole_log(bench):
    """One JSON object on each line, in order, to be saved."""
    reply = bench.owner.get("/audit/export")
    lines = [json.loads(line) for line in reply.text.splitlines()]

    assert reply.headers["content-disposition"].startswith("attachment")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["event"] for line in lines[:2]] == ["token", "start"]


def test_whoever_may_not_read_the_log_is_turned_away(bench):
    """All of it."""
    guest = bench.guest()

    for path in ("/audit", "/audit/1", "/audit/export"):
        assert guest.get(path).status == 403
    assert guest.post("/audit/verify").status == 403
    assert 'href="/audit"' not in guest.get("/tools").text


def test_a_log_that_was_changed_is_found_out(tmp_path):
    """The page says which entry, and the entry itself says that it does not fit."""
    with open_bench(tmp_path) as bench:
        bench.owner.post("/tools/plan/try", do="run", **{"a/title": "one"})
        whole = bench.owner.post("/audit/verify").text
        with sqlite3.connect(tmp_path / "state" / "toolcrib" / "audit.db") as log:
            log.execute("DROP TRIGGER entry_is_never_changed")
            log.execute("""UPDATE entry SET body = replace(body, '"plan"', '"plot"') WHERE seq = 3""")
            log.commit()
        changed = bench.owner.post("/audit/verify").text

        assert "The chain is whole" in whole
        assert "toolcrib audit verify --head" in whole
        assert "record 3 was edited" in changed
        assert "does not fit" in bench.owner.get("/audit/3").text


def test_a_log_that_is_switched_off_says_so(tmp_path):
    """And how to switch it on."""
    with open_bench(tmp_path, "[audit]\nenabled = false") as bench:
        assert "The audit log is switched off" in bench.owner.get("/audit").text
        assert bench.owner.get("/audit/export").status == 404
