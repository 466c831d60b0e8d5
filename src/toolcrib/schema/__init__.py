"""JSON Schema, decided without waiting: derive it, weigh it, check values against it, clean what servers send."""
