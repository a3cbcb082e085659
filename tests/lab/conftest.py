"""Shared by the tests of the lab: a real S3 server on loopback, and which pairs the quick tests try."""

from __future__ import annotations

import pytest

from walkback.lab.registry import ARCHITECTURES, METHODS

EVERYWHERE = ("bp", "dfa")
"""Methods that the quick tests try on every architecture."""
WITH_ALL = ("resmlp", "mlp")
"""Architectures that the quick tests try with every method; each method is defined on one of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every pair is tested, by `make test-all`; `make test` tries each method and each architecture."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        method, architecture = given.get("name", given.get("method")), given.get("architecture")
        if method not in METHODS or architecture not in ARCHITECTURES:
            continue
        if method not in EVERYWHERE and architecture not in WITH_ALL:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def s3():
    """The address of a bucket; whatever is started meanwhile inherits the way to it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bucket")
        yield "s3://bucket"
    server.stop()
