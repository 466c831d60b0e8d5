"""The knowledge base: documents become passages, passages are found, and answers say where they come from."""
