"""Connections between ranks beside MPI, by which they notice that one is gone.

A rank is connected with those at a distance of 1, 2, 4, 8... up and down, which for a few ranks
is all of them. The system closes a connection when a process ends, however it ends, and keeps
asking hosts that have gone silent. News is passed on by whoever hears it first, so that all hear
of it in a few steps, past ranks that are too busy to pass it on.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any

from retrograd import arrays

_CARD_BYTES = 512
_KNOCK_SECONDS = 30.0
_SILENT_SECONDS = 6  # a host that answers nothing for this long is gone


def neighbours(rank: int, size: int) -> list[int]:
    """The ranks that a rank is connected with.

    >>> neighbours(0, 4), neighbours(0, 12)
    ([1, 2, 3], [1, 2, 4, 8, 10, 11])
    """
    found: set[int] = set()
    distance = 1
    while distance < size:
        found |= {(rank + distance) % size, (rank - distance) % size}
        distance *= 2
    return sorted(found - {rank})


def _host_mark() -> str:
    """What tells this host from others, also where names repeat."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else socket.gethostname()


def _addresses() -> list[str]:
    """Where other hosts may reach this one."""
    found = []
    try:
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET):
            found.append(str(address[0]))
    except OSError:  # a host whose own name nobody knows: the way out of it is left
        found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        try:
            outward.connect(("192.0.2.1", 9))  # nothing is sent; this only picks a way
            found.append(str(outward.getsockname()[0]))
        except OSError:
            outward.close()
    unique = dict.fromkeys(a for a in found if not a.startswith("127."))
    return [*unique, "127.0.0.1"]


def _exchange(comm: Any, mine: dict[str, Any]) -> list[dict[str, Any]]:
    """What every rank says of itself, by MPI."""
    text = json.dumps(mine).encode()
    sent = arrays.zeros(_CARD_BYTES, "u1")
    sent[: len(text)] = list(text[:_CARD_BYTES])
    received = arrays.zeros(_CARD_BYTES * comm.size, "u1")
    request = comm.Iallgather(sent, received)
    while not request.Test():
        time.sleep(50e-6)
    rows = received.reshape(comm.size, -1)
    return [json.loads(bytes(row).rstrip(b"\0")) for row in rows]


def connect(comm: Any) -> tuple[list[dict[str, Any]], dict[int, socket.socket]]:
    """Connect this rank with its neighbours. What all ranks say of themselves, and a connection
    for each neighbour."""
    rank, size = comm.rank, comm.size
    host = _host_mark()
    hosts = [card["host"] for card in _exchange(comm, {"host": host})]
    one_host = len(set(hosts)) == 1
    near = neighbours(rank, size)
    secret = secrets.token_hex(16)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1" if one_host else "", 0))
        listener.listen(len(near) + 8)
        cards = _exchange(comm, {
            "pid": os.getpid(), "name": socket.gethostname()[:100], "secret": secret,
            "port": listener.getsockname()[1], "at": _addresses()[:8] if not one_host else [],
        })  # fmt: skip
        made = {peer: _call(cards[peer], rank, hosts[peer] == host, peer)
                for peer in near if peer < rank}  # fmt: skip
        made |= _answer(listener, secret, {peer for peer in near if peer > rank})
    for connection in made.values():
        _keep_alive(connection)
    return cards, made


def _call(card: dict[str, Any], rank: int, same_host: bool, peer: int) -> socket.socket:
    tried = []
    for address in ["127.0.0.1"] if same_host else card["at"]:
        try:
            made = socket.create_connection((address, card["port"]), _KNOCK_SECONDS / 3)
            made.sendall(f"{card['secret']} {rank}\n".encode())
        except OSError as error:
            tried.append(f"{address}: {error}")
            continue
        return made
    raise RuntimeError(
        f"rank {rank} cannot reach rank {peer} on {card['name']} by TCP ({'; '.join(tried)}). "
        "Ranks watch each other by connections of their own: hosts must be allowed to open them"
    )


def _answer(listener: socket.socket, secret: str, expected: set[int]) -> dict[int, socket.socket]:
    made: dict[int, socket.socket] = {}
    deadline = time.monotonic() + _KNOCK_SECONDS
    while missing := expected - set(made):
        listener.settimeout(max(deadline - time.monotonic(), 0.01))
        try:
            connection, _ = listener.accept()
            connection.settimeout(5)
            word, _, number = _line(connection).partition(" ")
        except TimeoutError:
            raise RuntimeError(
                f"ranks {sorted(missing)} have not connected within {_KNOCK_SECONDS:g} s"
            ) from None
        if secrets.compare_digest(word.encode(), secret.encode()) and int(number) in missing:
            made[int(number)] = connection
        else:
            connection.close()  # somebody else who found the port
    return made


def _line(connection: socket.socket) -> str:
    got = b""
    while not got.endswith(b"\n") and len(got) < 100:
        byte = connection.recv(1)
        if not byte:
            break
        got += byte
    return got.decode(errors="replace").strip()


def _keep_alive(connection: socket.socket) -> None:
    """Let the system find out when the host at the other end has vanished."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", _SILENT_SECONDS // 2 - 1),
        ("TCP_USER_TIMEOUT", _SILENT_SECONDS * 1000),
    ):  # fmt: skip
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
