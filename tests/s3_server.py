"""An S3 server for tests, moto's, on 127.0.0.1."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.servers import free_port, wait_for


@contextmanager
def bucket() -> Iterator[str]:
    """Run a server; the URL of a bucket on it, which this process and its children may use."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url, keys = f"http://127.0.0.1:{port}", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        wait_for(port, server)
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
        values = {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            **dict.fromkeys(keys, "x"),
        }
        for name, value in values.items():
            patch.setenv(name, value)
        yield "s3://bucket"
        server.terminate()
