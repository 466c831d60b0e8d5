"""What the user wrote, as frozen values: text comes in, nothing is opened or awaited, the environment is given."""
