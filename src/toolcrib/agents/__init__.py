"""Agents: the loop that talks to a model and has its tool calls run by the Crib."""
