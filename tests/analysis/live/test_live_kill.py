"""Eight clients tell while the server is killed again and again."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from live_client import Client

import bayes_feasible as bf

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))
CLIENTS, RESULTS, KILLS = 8, 100, 20
GONE = (OSError, http.client.HTTPException)


def start(trial, folder, port):
    """The server, as soon as it answers, and its address."""
    process = subprocess.Popen(
        [COMMAND, "trial", "serve", trial, "--port", str(port), "--token-file", folder / "token"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().strip()


def tell_all(address, number, acknowledged, finished):
    """Tell each result until it is acknowledged; sometimes once more, as if that had got lost."""
    client, form = Client(address), None
    for i in range(RESULTS):
        value = float(1000 * number + i)
        while True:
            try:
                form = form or client.form("tell")
                fields = form | {"arm": "0", "value-0": str(value), "count": "1"}
                status, headers, _ = client.post("tell", fields)
                if i % 7 == 0:
                    again = client.post("tell", fields)
                    assert again[1].get("location", headers["location"]) == headers["location"]
            except GONE:  # sent again, with the same key
                time.sleep(0.05)
                continue
            if status == 303:
                acknowledged.append((value, int(re.search(r"event=(\d+)", headers["location"])[1])))
                form = None
                break
            assert status == 503
    finished.append(number)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_counted_twice(tmp_path):
    trial = bf.Trial.new(tmp_path / "a.trial", bf.Problem([[1, 0], [0, 1]]), seed=1).path
    server, address = start(trial, tmp_path, 0)
    port = int(re.search(r":(\d+)/", address)[1])
    acknowledged, finished = [], []
    clients = [
        threading.Thread(target=tell_all, args=(address, i, acknowledged, finished))
        for i in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    rng, kills = np.random.default_rng(5), 0
    while kills < KILLS:
        assert len(finished) < CLIENTS, "the clients were done before the last kill"
        time.sleep(rng.uniform(0.2, 1.5))
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        server.stdout.close()
        kills += 1
        server, again = start(trial, tmp_path, port)
        assert again == address
    for client in clients:
        client.join()
    server.terminate()
    server.wait()
    server.stdout.close()
    found = bf.Trial(trial)
    wanted = [float(1000 * i + j) for i in range(CLIENTS) for j in range(RESULTS)]
    assert Counter(found.history.rewards.tolist()) == Counter(wanted)
    assert Counter(value for value, _ in acknowledged) == Counter(wanted)
    for value, number in acknowledged:
        assert found.events[number - 1]["rewards"] == [value]
    print(f"{len(wanted)} results of {CLIENTS} clients, {kills} kills")
