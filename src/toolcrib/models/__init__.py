"""Language models: one way to speak to all of them, over their HTTP APIs or a client object of the user's own."""
