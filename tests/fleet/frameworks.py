"""Agent frameworks that meet toolcrib over MCP, each in an environment of the fleet that has its name."""

OVER_MCP = ("crewai", "llama_index")


def with_model(url: str) -> dict[str, str]:
    """The variables by which a framework asks the model at ``url``, and nobody else anything."""
    return {
        "OPENAI_API_KEY": "sk-example",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_BASE_URL": f"{url}/v1",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
    }
