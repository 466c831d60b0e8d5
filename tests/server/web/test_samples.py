"""The last hour, minute by minute."""

from toolcrib.calls.metrics import Metrics
from toolcrib.server.web.overview_page import EVERY_S, KEPT_S, Samples


def test_calls_stand_in_the_minute_they_were_made():
    """What is younger than the last sample counts, too."""
    now, metrics = 1000.0, Metrics()
    samples = Samples(metrics, lambda: now)
    samples.take()
    metrics.of("a").note(0.1, 0)
    metrics.of("a").note(0.1, 1)
    now += 10
    samples.take()
    now += 120
    metrics.of("b").note(0.1, 0)

    hour = samples.hour()

    assert (hour.fine[-3], hour.failed[-3], hour.fine[-1], hour.failed[-1]) == (1, 1, 1, 0)
    assert (hour.calls, hour.errors) == (3, 1)


def test_what_is_older_than_an_hour_is_forgotten():
    """The ring does not grow."""
    now, metrics = 0.0, Metrics()
    samples = Samples(metrics, lambda: now)
    metrics.of("a").note(0.1, 0)
    for _ in range(int(KEPT_S / EVERY_S) * 2):
        samples.take()
        now += EVERY_S

    assert samples.hour().calls == 0
    assert len(samples._kept) == KEPT_S / EVERY_S + 1


def test_how_long_calls_of_the_last_hour_took_is_told_by_quantiles():
    """Not what is older."""
    now, metrics = 0.0, Metrics()
    samples = Samples(metrics, lambda: now)
    metrics.of("old").note(50, 0)
    now += 2 * KEPT_S
    samples.take()
    for seconds in (*[0.002] * 19, 4.0):
        metrics.of("new").note(seconds, 0)

    hour = samples.hour()

    assert 0.001 < hour.quantile(0.5) < 0.0025
    assert hour.quantile(0.95) <= 0.0025
    assert 2.5 < hour.quantile(1.0) <= 5.0
