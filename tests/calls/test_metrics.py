"""Metrics as Prometheus reads them, judged by its own parser."""

from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from toolcrib.calls.metrics import OTHERS, TOOLS_MAX, Metrics, exposition
from toolcrib.core.kinds import Health
from toolcrib.core.view import CribHealth, ServerHealth, ToolCounts

SERVER = ServerHealth(Health.HEALTHY, "connected", "success", 1, False, "", "", "", 2, 0, "closed", 0.0, "")
AUDIT = {"enabled": True, "problem": "", "written": 7, "backlog": 1, "failures": 2, "lost": 3}


def health(**changed: Any) -> CribHealth:
    whole = CribHealth(Health.HEALTHY, {}, {"audit": "ok"}, ToolCounts(3, 40), {}, {"files": SERVER}, None, AUDIT)
    return msgspec.structs.replace(whole, **changed)


def read(metrics: Metrics, told: CribHealth | None = None) -> dict[tuple[str, ...], float]:
    """Every sample: its name and label values → its value."""
    text = exposition(metrics, told or health(), "1.2.3", 1_700_000_000.25)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_calls_are_counted_by_how_they_ended():
    """Success and each code by tool; what no tool did by code alone."""
    metrics = Metrics(in_flight=4)
    tally = metrics.of("files__read")
    tally.note(0.002, 0)
    tally.note(0.3, 0)
    tally.note_failed(40, "TOOL_TIMEOUT", "late")
    tally.note_refused("TOOL_INVALID_INPUT")
    metrics.count_unknown("TOOL_NOT_FOUND")
    metrics.count_unknown("TOOL_INVALID_INPUT")

    samples = read(metrics)

    assert samples["toolcrib_calls_total", "files__read", "success"] == 2
    assert samples["toolcrib_calls_total", "files__read", "TOOL_TIMEOUT"] == 1
    assert samples["toolcrib_call_refusals_total", "TOOL_INVALID_INPUT"] == 2
    assert samples["toolcrib_call_refusals_total", "TOOL_NOT_FOUND"] == 1
    assert samples["toolcrib_calls_in_flight",] == 4


def test_what_is_away_is_told_by_part():
    """One sample for each part, and one for all of it."""
    broken = health(away={"store": "it does not answer"}, parts={"audit": "ok", "store": "it does not answer"})

    well, ill = read(Metrics()), read(Metrics(), broken)

    assert (well["toolcrib_healthy",], ill["toolcrib_healthy",]) == (1, 0)
    assert (ill["toolcrib_part_up", "audit"], ill["toolcrib_part_up", "store"]) == (1, 0)


def test_durations_fall_into_classes_that_add_up():
    """Each class counts what is within its bound, the bound included; the last one counts all."""
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.3, 100):
        metrics.of("a").note(seconds, 0)

    samples = read(metrics)

    counted = {
        bound: samples["toolcrib_call_duration_seconds_bucket", "a", bound]
        for bound in ("0.001", "0.25", "0.5", "60", "+Inf")
    }
    assert counted == {"0.001": 2, "0.25": 2, "0.5": 3, "60": 3, "+Inf": 4}
    assert samples["toolcrib_call_duration_seconds_count", "a"] == 4
    assert samples["toolcrib_call_duration_seconds_sum", "a"] == 100.3015


def test_servers_catalogue_log_and_process_are_told():
    """What the health page knows, as numbers."""
    samples = read(Metrics())

    assert samples == {
        ("toolcrib_info", "1.2.3"): 1,
        ("process_start_time_seconds",): 1_700_000_000.25,
        ("toolcrib_calls_in_flight",): 0,
        ("toolcrib_server_up", "files"): 1,
        ("toolcrib_server_lanes", "files"): 0,
        ("toolcrib_server_restarts_total", "files"): 2,
        ("toolcrib_part_up", "audit"): 1,
        ("toolcrib_healthy",): 1,
        ("toolcrib_catalog_tools", "native"): 3,
        ("toolcrib_catalog_tools", "mcp"): 40,
        ("toolcrib_audit_up",): 1,
        ("toolcrib_audit_entries_total",): 7,
        ("toolcrib_audit_backlog",): 1,
        ("toolcrib_audit_failures_total",): 2,
        ("toolcrib_audit_lost_total",): 3,
    }


def test_a_log_in_trouble_is_down():
    """So that somebody is called."""
    samples = read(Metrics(), health(audit=AUDIT | {"problem": "the disk is full"}))

    assert samples["toolcrib_audit_up",] == 0


def test_names_of_strangers_do_not_break_the_page():
    """Quotes, backslashes and line breaks come out as they went in."""
    metrics = Metrics()
    name = 'a"b\\c\nd} 1'
    metrics.of(name).note(0.1, 0)

    samples = read(metrics)

    assert samples["toolcrib_calls_total", name, "success"] == 1


def test_the_number_of_labels_is_bounded():
    """Beyond the limit, the tools that are called least are counted together; nothing is lost from the sum."""
    metrics = Metrics()
    for number in range(TOOLS_MAX + 10):
        for _ in range(2 if number < TOOLS_MAX else 1):
            metrics.of(f"tool{number}").note_failed(0.1, "TOOL_X", "no")
    metrics.of("never called")

    samples = read(metrics)

    assert len({key[1] for key in samples if key[0] == "toolcrib_calls_total"}) == TOOLS_MAX + 1
    assert samples["toolcrib_calls_total", OTHERS, "TOOL_X"] == 10
    assert samples["toolcrib_call_duration_seconds_count", OTHERS] == 10


def test_quantiles_come_from_the_classes_and_never_exceed_the_slowest():
    """Half of the calls are in the first class, one is far away."""
    metrics = Metrics()
    for seconds in (0.0004, 0.0004, 0.3, 100):
        metrics.of("a").note(seconds, 0)
    tally = metrics.of("a")

    assert tally.quantile(0.5) == 0.001
    assert tally.quantile(0.75) == 0.5
    assert tally.quantile(1.0) == 100
    assert metrics.of("never called").quantile(0.5) == 0.0
