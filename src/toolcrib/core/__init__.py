"""The words of toolcrib: values and protocols. Standard library and msgspec only; no I/O, no clock, no logging."""
