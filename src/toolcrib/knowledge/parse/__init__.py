"""From bytes to text: one file per family of formats. Nothing here opens a file or waits."""
