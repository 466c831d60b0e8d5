"""Attacks on a running toolcrib, all at once: every case is counted, and anything that gets past is named."""
