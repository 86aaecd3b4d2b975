"""Files of events, read back as TensorBoard reads them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import retrograd as torch
from retrograd.utils import _events
from retrograd.utils.tensorboard import SummaryWriter


def fields(message: bytes) -> dict[int, list[Any]]:
    """The fields of a message of Protocol Buffers, by number."""
    found: dict[int, list[Any]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        result = shift = 0
        while True:
            byte = message[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            value: Any = number()
        else:
            size = {1: 8, 5: 4}.get(kind) or number()
            value = message[at : at + size]
            at += size
            if kind in (1, 5):
                value = struct.unpack("<d" if kind == 1 else "<f", value)[0]
        found.setdefault(key >> 3, []).append(value)
    assert at == len(message)
    return found


def crc32c(content: bytes) -> int:
    """Bit by bit, from the definition."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(content: bytes) -> int:
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(folder: Path) -> list[dict[int, list[Any]]]:
    (path,) = folder.glob("events.out.tfevents.*")
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        body = content[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", content, at + 8)[0] == masked(content[at : at + 8])
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == masked(body)
        found.append(fields(body))
        at += length + 16
    return found


def values(folder: Path) -> list[tuple[int, dict[int, list[Any]]]]:
    first, *rest = events(folder)
    assert first[3] == [b"brain.Event:2"]
    return [(event[2][0], fields(fields(event[5][0])[1][0])) for event in rest]


def test_checksums() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the published check value
    for content in (b"", b"123456789", bytes(range(256))):
        assert _events.checksum(content) == masked(content)


def test_scalars(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 0)
        writer.add_scalar("loss", torch.tensor(0.25, requires_grad=True), 300, walltime=12.5)
        writer.add_scalars("run/both", {"a": 1, "b": torch.ones(1)}, 7)
        assert writer.get_logdir() == str(tmp_path)
    assert [(step, v[1], v[2]) for step, v in values(tmp_path)] == [
        (0, [b"loss"], [0.5]), (300, [b"loss"], [0.25])]  # fmt: skip
    assert events(tmp_path)[2][1] == [12.5]
    for name in "ab":
        ((step, value),) = values(tmp_path / f"run_both_{name}")
        assert (step, value[1], value[2]) == (7, [b"run/both"], [1.0])


def unpacked(content: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(content) // 8}d", content))


def test_histograms(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", torch.tensor([1.0, 2.0, 2.0, 4.0]), 3, bins=3)
        writer.add_histogram("t", torch.tensor([-1.0, 0.5]), 4)
        with pytest.raises(ValueError, match="The input has no element"):
            writer.add_histogram("e", torch.empty(0))
    (step, value), (_, other) = values(tmp_path)
    facts = fields(value[5][0])
    assert step == 3
    assert [facts[n][0] for n in range(1, 6)] == [1.0, 4.0, 4.0, 9.0, 25.0]
    assert unpacked(facts[6][0]) == [1.0, 2.0, 3.0, 4.0]
    assert unpacked(facts[7][0]) == [0.0, 1.0, 2.0, 1.0]
    facts = fields(other[5][0])
    limits, counts = unpacked(facts[6][0]), unpacked(facts[7][0])
    assert len(limits) == len(counts)
    taken = [i for i, n in enumerate(counts) if n]
    assert [counts[i] for i in taken] == [1.0, 1.0]
    for i, x in zip(taken, (-1.0, 0.5), strict=True):
        assert limits[i - 1] <= x <= limits[i]


def pixels(encoded: bytes) -> tuple[tuple[int, int], bytes]:
    """The size of a PNG file and its bytes, without those that begin rows."""
    assert encoded[:8] == b"\x89PNG\r\n\x1a\n"
    at, content, size = 8, b"", (0, 0)
    while at < len(encoded):
        (length,) = struct.unpack_from(">I", encoded, at)
        kind, body = encoded[at + 4 : at + 8], encoded[at + 8 : at + 8 + length]
        (crc,) = struct.unpack_from(">I", encoded, at + 8 + length)
        assert crc == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
        content += body if kind == b"IDAT" else b""
        at += length + 12
    width, height = size
    rows = zlib.decompress(content)
    step = 3 * width + 1
    return (height, width), b"".join(rows[i * step + 1 : (i + 1) * step] for i in range(height))


def test_pictures(tmp_path: Path) -> None:
    picture = torch.arange(12, dtype=torch.uint8).reshape(3, 2, 2) * 20
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("p", picture, 1)
        writer.add_image("f", picture.float() / 255, 1)
        writer.add_image("g", torch.tensor([[0.0, 2.0]]), 2, dataformats="HW")
        writer.add_images("n", torch.stack([picture] * 3), 2)
        with pytest.raises(AssertionError, match="input format are different"):
            writer.add_image("p", picture, 1, dataformats="HW")
    found = [fields(value[4][0]) for _, value in values(tmp_path)]
    assert [(f[1], f[2], f[3]) for f in found] == [
        ([2], [2], [3]), ([2], [2], [3]), ([1], [2], [3]), ([2], [6], [3])]  # fmt: skip
    rows = bytes(picture.permute(1, 2, 0).flatten().tolist())
    assert pixels(found[0][4][0]) == ((2, 2), rows)
    assert pixels(found[1][4][0]) == ((2, 2), rows)
    assert pixels(found[2][4][0]) == ((1, 2), bytes([0] * 3 + [255] * 3))
    assert pixels(found[3][4][0]) == ((2, 6), rows[:6] * 3 + rows[6:] * 3)


def test_texts(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("notes", "ünder *way*", 5)
    ((step, value),) = values(tmp_path)
    assert (step, value[1]) == (5, [b"notes/text_summary"])
    assert fields(value[8][0])[8] == ["ünder *way*".encode()]
    assert fields(fields(value[9][0])[1][0])[1] == [b"text"]


def test_a_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_mine")
    writer.add_scalar("a", 1.0, -1)
    writer.flush()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_mine")
    assert [v[2] for _, v in values(folder)] == [[1.0]]
    writer.close()


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_histogram("h", torch.tensor([1.0, 2.0]), 3)
        writer.add_image("p", torch.ones(3, 2, 2), 3)
        writer.add_text("t", "words", 3)
    read = loading.EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in read.Scalars("loss")] == [(3, 0.5)]
    assert read.Histograms("h")[0].histogram_value.num == 2
    assert read.Images("p")[0].width == 2
    assert read.Tensors("t/text_summary")[0].tensor_proto.string_val == [b"words"]
