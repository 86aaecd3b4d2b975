"""Ranks on two hosts, which here are two networks of one machine, with a link between them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from _mpi import ROOT

from retrograd.distributed import _network

# What a rank does at the beginning, with files in place of MPI, which is not under test here.
RANK = """
import sys, time
from pathlib import Path
import numpy as np
from retrograd.distributed import _liveness, _network

class Files:
    size = 2
    def __init__(self, rank, folder): self.rank, self.folder, self.calls = rank, Path(folder), 0
    def Iallgather(self, sent, received):
        self.calls += 1
        mine = self.folder / f"{self.calls}-{self.rank}"
        mine.with_suffix(".part").write_bytes(sent.tobytes())
        mine.with_suffix(".part").rename(mine)
        paths = [self.folder / f"{self.calls}-{rank}" for rank in range(self.size)]
        class Request:
            def Test(self):
                if not all(path.exists() for path in paths): return False
                received[:] = np.frombuffer(b"".join(p.read_bytes() for p in paths), "u1")
                return True
        return Request()

cards, made = _network.connect(Files(int(sys.argv[1]), sys.argv[2]))
monitor = _liveness.Monitor(int(sys.argv[1]), cards, made)
monitor.told = True  # so that nothing but the news is to be seen
print("connected", *sorted(made), *(c.getpeername()[0] for c in made.values()), flush=True)
while (found := monitor.first_end()) is None:
    time.sleep(0.01)
print(monitor.words(found), flush=True)
"""


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise OSError(done.stderr)


@pytest.fixture
def hosts():
    """The names of two networks, 10.99.7.1 and 10.99.7.2, that see nothing but each other."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("networks can be made only by root, with the command ip")
    names = [f"rg{uuid.uuid4().hex[:8]}" for _ in range(2)]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "link0", "netns", names[0], "type", "veth",
               "peer", "name", "link0", "netns", names[1])  # fmt: skip
            for number, name in enumerate(names, 1):
                ip("-n", name, "addr", "add", f"10.99.7.{number}/24", "dev", "link0")
                ip("-n", name, "link", "set", "link0", "up")
        except OSError as error:
            pytest.skip(f"this system does not let us make networks: {error}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)


def start(hosts, folder):
    return [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-c", RANK, str(rank), str(folder)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        for rank, name in enumerate(hosts)
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["the link is cut", "a process is killed"])
def test_a_host_that_is_gone_is_noticed(hosts, tmp_path, how):
    ranks = start(hosts, tmp_path)
    try:
        with ThreadPoolExecutor(2) as readers:  # which ends when the processes do
            try:
                first = list(readers.map(lambda p: p.stdout.readline(), ranks, timeout=120))
                assert first == ["connected 1 10.99.7.2\n", "connected 0 10.99.7.1\n"]
                cut = time.monotonic()
                if how == "the link is cut":
                    ip("-n", hosts[1], "link", "set", "link0", "down")
                    watching = ranks
                else:
                    ranks[1].kill()
                    watching = ranks[:1]
                told = list(readers.map(lambda p: p.stdout.readline(), watching, timeout=120))
            finally:
                for process in ranks:
                    process.kill()
        assert time.monotonic() - cut < 40  # the promise is 10, on a machine that is not busy
        for rank, words in enumerate(told):
            assert words.startswith(f"rank {1 - rank} (pid "), words
            assert words.endswith("died\n")
    finally:
        for process in ranks:
            process.wait()
            process.stdout.close()


# -- pieces of it ----------------------------------------------------------------------------


def test_addresses(monkeypatch):
    monkeypatch.setattr(_network, "_way_out", lambda: "10.0.0.3")
    monkeypatch.setattr(_network, "_of_name", lambda: ["127.0.1.1", "192.168.0.7"])
    monkeypatch.setattr(_network, "_of_interfaces", lambda: ["127.0.0.1", "10.0.0.3", "172.17.0.1"])
    assert _network._addresses() == ["10.0.0.3", "192.168.0.7", "172.17.0.1"]
    monkeypatch.setattr(_network, "_way_out", lambda: "")
    assert _network._addresses() == ["192.168.0.7", "10.0.0.3", "172.17.0.1"]


def test_addresses_of_this_machine():
    assert "127.0.0.1" in _network._of_interfaces()
    for address in _network._addresses():
        socket.inet_aton(address)
        assert not address.startswith("127.")


def test_a_silent_host_is_given_up_in_time():
    with socket.socket() as connection:
        _network._keep_alive(connection)
        assert connection.gettimeout() is None
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            idle, between, times, unanswered = (
                connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
                for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
            )
            assert idle + between * times == 6
            assert unanswered == 5500


def card(port: int, *at: str) -> dict[str, object]:
    return {"name": "there", "pid": 1, "secret": "word", "port": port, "at": list(at)}


def test_calls_go_to_the_first_address_where_the_rank_answers(monkeypatch):
    monkeypatch.setattr(_network, "_TRY_SECONDS", 0.5)
    with socket.create_server(("127.0.0.2", 0)) as server, ThreadPoolExecutor(1) as aside:
        port = server.getsockname()[1]
        with socket.create_server(("127.0.0.3", port)):  # somebody else, who never answers
            answered = aside.submit(_network._answer, server, "word", {7})
            # nobody, somebody else, and then the one who knows the word
            at = ("127.0.0.4", "127.0.0.3", "127.0.0.2")
            made = _network._call(card(port, *at), 7, False, 0)
            assert made.getpeername() == ("127.0.0.2", port)
            there = answered.result(30)
            assert list(there) == [7]
            for connection in (made, there[7]):
                connection.close()


def test_strangers_are_sent_away(monkeypatch):
    monkeypatch.setattr(_network, "_TRY_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as aside:
        where = server.getsockname()
        answered = aside.submit(_network._answer, server, "word", {1})
        with socket.create_connection(where) as wrong, socket.create_connection(where) as silent:
            wrong.sendall(b"another 1\n")
            assert wrong.recv(10) == b""
            assert silent.recv(10) == b""
        made = _network._call(card(where[1]), 1, True, 0)
        there = answered.result(30)
        made.sendall(json.dumps({"rank": 1}).encode())
        assert there[1].recv(100) == b'{"rank": 1}'
        for connection in (made, there[1]):
            connection.close()


def test_nobody_is_reached(monkeypatch):
    monkeypatch.setattr(_network, "_KNOCK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(RuntimeError, match=r"ranks \[2, 5\] have not connected"):
            _network._answer(server, "word", {2, 5})
    with pytest.raises(RuntimeError, match=r"cannot reach rank 0 on there by TCP \(127.0.0.1: "):
        _network._call(card(port), 3, True, 0)
    with pytest.raises(RuntimeError, match="it has no address"):
        _network._call(card(port), 3, False, 0)
