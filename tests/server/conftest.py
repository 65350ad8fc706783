import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serving import Server  # noqa: E402


@pytest.fixture(scope="session")
def server():
    s = Server()
    yield s
    s.close()


@pytest.fixture
def start():
    """Starts servers with flags of their own; they end with the test."""
    servers = []

    def make(*flags, **kw):
        servers.append(Server(*flags, **kw))
        return servers[-1]

    yield make
    for s in servers:
        s.close()


@pytest.fixture
def client(server):
    import openai

    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
