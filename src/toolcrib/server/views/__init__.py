"""What there is as plain data, the same for the command line, REST and the page; reading it starts nothing."""
