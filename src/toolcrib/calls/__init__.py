"""What happens to every call between door and source. Does not know where a tool comes from."""
