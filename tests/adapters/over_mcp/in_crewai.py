import json
import sys

from crewai import Agent, Crew, Task
from crewai_tools import MCPServerAdapter


def talk(url: str) -> str:
    with MCPServerAdapter({"url": url, "transport": "streamable-http"}) as tools:
        clerk = Agent(role="Clerk", goal="Count", backstory="You keep the books.", llm="gpt-5-mini", tools=tools)
        count = Task(description="Go", expected_output="A number.", agent=clerk)
        return str(Crew(agents=[clerk], tasks=[count]).kickoff())


if __name__ == "__main__":
    print(json.dumps({"text": talk(sys.argv[1])}))
