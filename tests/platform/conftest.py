"""Each test gets a gateway of its own, and a platform that knows nothing of this machine's environment."""

import pytest
from tests.platform.fake_gateway import serving

from toolcrib.platform.gateway import Patience, Whereabouts
from toolcrib.platform.servers import Platform, PlatformToolOptions
from toolcrib.platform.settings import PlatformSettings


@pytest.fixture
async def gateway():
    async with serving() as gateway:
        yield gateway


@pytest.fixture
def options():
    return PlatformToolOptions("Claude", patience=Patience(2.0, 5.0, delays_s=(0.0, 0.0)))


@pytest.fixture
def heard():
    """What was told."""
    return []


@pytest.fixture
def make_platform(tmp_path, heard):
    """A platform at an address, or in development."""

    def make(endpoint="http://127.0.0.1:9", **more):
        env = more.pop("env", {})
        around = Whereabouts(more.pop("cwd", tmp_path), more.pop("script", None), env)
        settings = PlatformSettings(endpoint, use_tooling_manifest=more.pop("development", False), env=env)
        return Platform(settings, around=around, emit=heard.append, **more)

    return make
