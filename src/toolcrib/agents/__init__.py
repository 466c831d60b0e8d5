"""Agents: the loop that talks to a model and has its tool calls run by the Crib.

::

    async with open_crib() as crib:
        done = await agent(crib, "ollama:llama3.2").ask("What time is it in Berlin?")
        print(done.text)
"""

from toolcrib.agents.errands import agent
from toolcrib.agents.loop import Agent, AgentEvent, AgentSettings, Done, ModelSaid, Started, ToolFinished

__all__ = ["Agent", "AgentEvent", "AgentSettings", "Done", "ModelSaid", "Started", "ToolFinished", "agent"]
