"""Asks a Jupyter server for its status all the time, from a process of its own.

`python -m bench.status URL TOKEN`: until its input ends; then it prints the times in milliseconds.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time
from urllib.parse import urlsplit

_PAUSE = 0.005


def main(url: str, token: str) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    headers = {"Authorization": f"token {token}"}
    times = []
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        start = time.perf_counter()
        connection.request("GET", f"{parts.path}api/status", headers=headers)
        connection.getresponse().read()
        times.append((time.perf_counter() - start) * 1000)
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
