"""Settings: a value, a callable, a variable, a default, in this order."""

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.platform.settings import DEFAULT_ENDPOINT, DEFAULT_SCOPE, Mode, PlatformSettings


def test_the_defaults_are_the_documented_ones():
    settings = PlatformSettings(env={})

    found = (settings.endpoint, settings.authentication_scope, settings.cluster, settings.is_development_cluster)
    assert found == (DEFAULT_ENDPOINT, DEFAULT_SCOPE, "prod", False)
    assert settings.mode == Mode(False, "default")


def test_variables_come_before_defaults():
    env = {
        "MCP_PLATFORM_ENDPOINT": "https://one.example/",
        "MCP_PLATFORM_AUTHENTICATION_SCOPE": "two/.default",
        "CLUSTER_CATEGORY": "dev",
    }
    settings = PlatformSettings(env=env)

    assert (settings.endpoint, settings.authentication_scope) == ("https://one.example", "two/.default")
    assert (settings.cluster, settings.is_development_cluster) == ("dev", True)


def test_overrides_come_before_variables_and_callables_are_called_each_time():
    tenants = iter(["https://a.example", "https://b.example"])
    settings = PlatformSettings(
        mcp_platform_endpoint=lambda: next(tenants),
        mcp_platform_authentication_scope="mine/.default",
        cluster_category=lambda: "local",
        use_tooling_manifest=lambda: True,
        env={"MCP_PLATFORM_ENDPOINT": "https://one.example", "NODE_ENV": "production"},
    )

    assert [settings.endpoint, settings.endpoint] == ["https://a.example", "https://b.example"]
    assert (settings.authentication_scope, settings.cluster) == ("mine/.default", "local")
    assert settings.mode == Mode(True, "use_tooling_manifest")


def test_a_callable_that_has_nothing_to_say_leaves_it_to_the_environment():
    settings = PlatformSettings(
        mcp_platform_endpoint=lambda: None, env={"MCP_PLATFORM_ENDPOINT": "https://one.example"}
    )

    assert settings.endpoint == "https://one.example"


@pytest.mark.parametrize(
    ("env", "mode"),
    [
        ({"NODE_ENV": "development"}, Mode(True, "NODE_ENV=development")),
        ({"NODE_ENV": "production"}, Mode(False, "NODE_ENV=production")),
        ({"ENVIRONMENT": "Development"}, Mode(True, "ENVIRONMENT=Development")),
        (
            {"PYTHON_ENVIRONMENT": "Production", "ENVIRONMENT": "Development"},
            Mode(False, "PYTHON_ENVIRONMENT=Production"),
        ),
        ({"DOTNET_ENVIRONMENT": "Development"}, Mode(True, "DOTNET_ENVIRONMENT=Development")),
        (
            {"TOOLCRIB_PLATFORM_DEVELOPMENT": "off", "NODE_ENV": "development"},
            Mode(False, "TOOLCRIB_PLATFORM_DEVELOPMENT=off"),
        ),
    ],
)
def test_the_mode_says_which_variable_decided_it(env, mode):
    assert PlatformSettings(env=env).mode == mode


@pytest.mark.parametrize(
    "endpoint", ["ftp://x", "nonsense", "https://user:secret@x.example", "https://x.example/?a=1", "https://[x"]
)
def test_an_impossible_endpoint_is_refused_without_being_repeated(endpoint):
    with pytest.raises(ConfigError) as refused:
        _ = PlatformSettings(endpoint, env={}).endpoint

    assert "secret" not in str(refused.value)
