"""What outlasts the process: files and databases. Bytes and rows are kept here; what they mean is decided elsewhere."""
