"""Disks that fail, fill up and lose power, for every store of toolcrib; in one process, the same every time."""
