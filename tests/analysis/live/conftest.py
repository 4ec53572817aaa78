"""A trial that is served, over real sockets."""

import socket
import threading

import pytest
import uvicorn
from live_client import PROBLEM, TOKEN, Client

import bayes_feasible as bf
from bayes_feasible.analysis.live.app import make_app


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    trial = bf.Trial.new(tmp_path_factory.mktemp("live") / "drug.trial", PROBLEM, seed=1)
    trial.tell("10 mg", 0.5, 0.4)
    return trial


@pytest.fixture(scope="module")
def client(trial):
    listener = socket.create_server(("127.0.0.1", 0))
    app = make_app(trial.path, TOKEN, {"lab.example"}, wait=2)
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none", http="h11",
                            h11_max_incomplete_event_size=2**14)  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield Client(f"http://127.0.0.1:{listener.getsockname()[1]}/{TOKEN}/")
    server.should_exit = True
    thread.join()
