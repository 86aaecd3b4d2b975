"""Connections between ranks outside of MPI, which detect that a rank has died.

A rank is connected with those at a distance of 1, 2, 4, 8... up and down, which for a few ranks
is all of them. The system closes a connection when a process ends, however it ends, and keeps
asking hosts that have gone silent. News is passed on by whoever hears it first, so that all hear
of it in a few steps, past ranks that are too busy to pass it on.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from retrograd import arrays
from retrograd.distributed._processes import beginning

_CARD_BYTES = 768
_KNOCK_SECONDS = 30.0  # until all are connected
_TRY_SECONDS = 3.0  # for one address: a firewall may swallow what is sent there
_SIOCGIFADDR = 0x8915  # Linux: the address of a network interface
_YES = b"yes\n"
_SILENT_SECONDS = 6  # a host that answers nothing for this long is gone


def neighbours(rank: int, size: int) -> list[int]:
    """The ranks that a rank is connected with.

    >>> neighbours(0, 4), neighbours(0, 12)
    ([1, 2, 3], [1, 2, 4, 8, 10, 11])
    """
    result: set[int] = set()
    distance = 1
    while distance < size:
        result |= {(rank + distance) % size, (rank - distance) % size}
        distance *= 2
    return sorted(result - {rank})


def _host_mark() -> str:
    """What distinguishes this host from others, even if their names are the same. Containers on one
    machine have networks of their own, and cannot reach each other by 127.0.0.1."""
    boot, network = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")
    if boot.exists() and network.exists():
        return f"{boot.read_text().strip()} {network.stat().st_ino}"
    return socket.gethostname()


def _addresses() -> list[str]:
    """The addresses at which other hosts may reach this one, the most likely first."""
    result = [_way_out(), *_of_name(), *_of_interfaces()]
    return list(dict.fromkeys(a for a in result if a and not a.startswith("127.")))


def _way_out() -> str:
    """The address of this host on its route to other networks."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        try:
            outward.connect(("192.0.2.1", 9))  # nothing is sent; this only selects a route
        except OSError:  # a host without a route to other networks
            return ""
        return str(outward.getsockname()[0])


def _of_name() -> list[str]:
    """The addresses that go with the name of this host."""
    try:
        known = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:  # its own name does not resolve
        return []
    return [str(address[0]) for *_, address in known]


def _of_interfaces() -> list[str]:
    """The address of each network interface, where the system tells."""
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # not a Unix
        return []
    result = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        for _, name in socket.if_nameindex():
            try:
                reply = fcntl.ioctl(any_, _SIOCGIFADDR, name.encode().ljust(256, b"\0"))
            except OSError:  # an interface without an address
                continue
            result.append(socket.inet_ntoa(reply[20:24]))
    return result


def until_done(request: Any) -> None:
    """Wait for a request of MPI."""
    while not request.Test():
        time.sleep(50e-6)


def _exchange(comm: Any, mine: dict[str, Any], wait: Callable[[Any], None]) -> list[dict[str, Any]]:
    """Exchange the contact data of all ranks by MPI."""
    text = json.dumps(mine).encode()
    sent = arrays.zeros(_CARD_BYTES, "u1")
    sent[: len(text)] = list(text[:_CARD_BYTES])
    received = arrays.zeros(_CARD_BYTES * comm.size, "u1")
    wait(comm.Iallgather(sent, received))
    rows = received.reshape(comm.size, -1)
    return [json.loads(bytes(row).rstrip(b"\0")) for row in rows]


def connect(
    comm: Any, wait: Callable[[Any], None] = until_done
) -> tuple[list[dict[str, Any]], dict[int, socket.socket]]:
    """Connect this rank with its neighbours. What all ranks say of themselves, and a connection
    for each neighbour."""
    rank, size = comm.rank, comm.size
    host = _host_mark()
    hosts = [card["host"] for card in _exchange(comm, {"host": host}, wait)]
    one_host = len(set(hosts)) == 1
    near = neighbours(rank, size)
    secret = secrets.token_hex(16)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1" if one_host else "", 0))
        listener.listen(len(near) + 8)
        cards = _exchange(comm, {
            "pid": os.getpid(), "name": socket.gethostname()[:100], "secret": secret,
            "port": listener.getsockname()[1], "at": _addresses()[:8] if not one_host else [],
            "start": beginning(os.getpid()),
        }, wait)  # fmt: skip
        for card, its_host in zip(cards, hosts, strict=True):
            card["host"] = its_host
        # Lower ranks are called while higher ranks call, so that nobody waits for its turn.
        with ThreadPoolExecutor(1) as aside:
            higher = {peer for peer in near if peer > rank}
            answered = aside.submit(_answer, listener, secret, higher)
            connections = {peer: _call(cards[peer], rank, hosts[peer] == host, peer)
                    for peer in near if peer < rank}  # fmt: skip
            connections |= answered.result()
    for connection in connections.values():
        _keep_alive(connection)
    return cards, connections


def _call(card: dict[str, Any], rank: int, same_host: bool, peer: int) -> socket.socket:
    """Connect with a rank that listens, at the first address that answers with its secret: from
    here, an address may belong to another process."""
    deadline = time.monotonic() + _KNOCK_SECONDS
    tried: dict[str, str] = {}
    while time.monotonic() < deadline:
        for address in ["127.0.0.1"] if same_host else card["at"]:
            try:
                connection = socket.create_connection((address, card["port"]), _TRY_SECONDS)
            except OSError as error:
                tried[address] = str(error)
                continue
            try:
                connection.sendall(f"{card['secret']} {rank}\n".encode())
                if connection.recv(len(_YES)) == _YES:
                    return connection
                tried[address] = "somebody else is there"
            except OSError as error:
                tried[address] = str(error)
            connection.close()
        time.sleep(0.1)
    how = "; ".join(f"{address}: {why}" for address, why in tried.items()) or "it has no address"
    raise RuntimeError(
        f"rank {rank} cannot reach rank {peer} on {card['name']} by TCP ({how}). Ranks watch each "
        "other by connections of their own: hosts must be allowed to open them"
    )


def _answer(listener: socket.socket, secret: str, expected: set[int]) -> dict[int, socket.socket]:
    """Wait for the ranks that call this one. Connections of others are closed."""
    connected: dict[int, socket.socket] = {}
    deadline = time.monotonic() + _KNOCK_SECONDS
    while missing := expected - set(connected):
        listener.settimeout(max(deadline - time.monotonic(), 0.01))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            for connection in connected.values():
                connection.close()
            raise RuntimeError(
                f"ranks {sorted(missing)} have not connected within {_KNOCK_SECONDS:g} s"
            ) from None
        caller = _caller(connection, secret)
        if caller in missing:
            connected[caller] = connection
        else:
            connection.close()
    return connected


def _caller(connection: socket.socket, secret: str) -> int:
    """The rank at the other end of a connection, or -1 if it is not a rank."""
    connection.settimeout(_TRY_SECONDS)
    try:
        word, _, number = _line(connection).partition(" ")
        if not secrets.compare_digest(word.encode(), secret.encode()):
            return -1
        connection.sendall(_YES)
    except OSError:  # it sends nothing, or has closed the connection
        return -1
    return int(number)


def _line(connection: socket.socket) -> str:
    got = b""
    while not got.endswith(b"\n") and len(got) < 100:
        byte = connection.recv(1)
        if not byte:
            break
        got += byte
    return got.decode(errors="replace").strip()


def _keep_alive(connection: socket.socket) -> None:
    """Let the system detect that the host at the other end has vanished."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Probes are sent every second after two seconds of silence. The limit in milliseconds must be
    # before the last probe: the system checks it only when it sends one.
    for name, value in (
        ("TCP_KEEPIDLE", 2), ("TCP_KEEPALIVE", 2), ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", _SILENT_SECONDS - 2), ("TCP_USER_TIMEOUT", _SILENT_SECONDS * 1000 - 500),
    ):  # fmt: skip
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
