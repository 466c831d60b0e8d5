import os
import sys
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib
from toolcrib.adapters.google_adk import toolset

os.environ |= {"GOOGLE_API_KEY": "example", "GOOGLE_GEMINI_BASE_URL": sys.argv[1]}


async def talk(crib: Crib, url: str) -> Any:
    agent = LlmAgent(name="a", model="gemini-2.5-flash", tools=[toolset(crib, names=NAMES)])
    runner = InMemoryRunner(agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="ann")
    asked = types.UserContent("Go")
    text = ""
    async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=asked):
        text = "".join(part.text or "" for part in (event.content.parts if event.content else ()))
    await runner.close()
    return {"text": text}


if __name__ == "__main__":
    converse(talk)
