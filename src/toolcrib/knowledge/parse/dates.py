"""Dates in one form that compares as text."""

from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any


def to_utc(value: Any) -> str:
    """A date or time of any common form as ``2026-01-31T12:00:00Z``; empty if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _shown(datetime.fromtimestamp(value, UTC)) if 0 <= value < 1 << 34 else ""
    if isinstance(value, datetime):
        return _shown(value)
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00Z"
    return _from_text(value.strip()) if isinstance(value, str) else ""


def _from_text(value: str) -> str:
    if len(value) > 64 or len(value) < 4:
        return ""
    try:
        return _shown(datetime.fromisoformat(value))
    except ValueError:
        pass
    try:
        return _shown(parsedate_to_datetime(value))
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def _shown(moment: datetime) -> str:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return f"{aware.astimezone(UTC).isoformat(timespec='seconds')[:19]}Z"
    except (ValueError, OverflowError):
        return ""
