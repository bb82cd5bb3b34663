"""Whatever the bytes, reading ends in a sketch or in E_SKETCH, and takes memory in proportion to the bytes."""

from __future__ import annotations

import hashlib
import os
import resource
import struct
import tracemalloc

import numpy as np
import pytest

from shoal.errors import ShoalError
from shoal.risk import Sketch, SketchedDataset, read_datasets, write_datasets
from shoal.risk.sketch.binary_format import DIGEST_BYTES, sealed
from shoal.risk.sketch.files import pack_dataset, unpack_dataset

KEY = b"0123456789abcdef"
HEADER_BYTES = 64


def made(rows: int = 3_000, k: int = 32, m: int = 16, *, owned: bool = True, values: int = 100) -> Sketch:
    rng = np.random.default_rng(rows)
    sketch = Sketch(k, m, key=KEY)
    taken = rng.zipf(1.5, rows) % values
    sketch.update(taken, rng.integers(0, rows // 3 + 1, rows) if owned else None)
    return sketch


SKETCHES = {
    "sampled": made(),
    "complete": made(values=9),
    "lists only": made(rows=60, k=64, m=512, values=1_000),
    "rows": made(owned=False),
    "empty": Sketch(16, 16, key=KEY),
}
DATASET = SketchedDataset(
    "visits",
    "uid",
    3_000,
    {("city",): SKETCHES["sampled"], ("city", "day"): SKETCHES["lists only"]},
    {("city",): "string"},
)


def resealed(body: bytes) -> bytes:
    return sealed(body[:-DIGEST_BYTES])


@pytest.mark.parametrize("sketch", SKETCHES.values(), ids=SKETCHES)
def test_reading_gives_back_what_was_written(sketch):
    packed = sketch.to_bytes()
    read = Sketch.from_bytes(packed)
    assert read.to_bytes() == packed
    assert read.share_below(5) == sketch.share_below(5)
    assert read.distinct_values() == sketch.distinct_values()
    assert read.owners() == sketch.owners()


@pytest.mark.parametrize("sketch", SKETCHES.values(), ids=SKETCHES)
def test_every_truncation_is_refused(sketch):
    packed = sketch.to_bytes()
    for length in range(0, len(packed), max(1, len(packed) // 300)):
        for cut in (packed[:length], resealed(packed[:length]) if length > DIGEST_BYTES else b""):
            with pytest.raises(ShoalError) as caught:
                Sketch.from_bytes(cut)
            assert caught.value.code == "E_SKETCH"


def test_every_single_bit_that_flips_is_noticed():
    packed = bytearray(SKETCHES["complete"].to_bytes())
    for bit in range(0, 8 * len(packed), 3):
        packed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ShoalError):
            Sketch.from_bytes(bytes(packed))
        packed[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("data", [b"", b"x", b"SHOAL" * 100, bytes(10_000), b"\x89KHLL\r\n\x1a"], ids=repr)
def test_what_is_no_sketch_at_all_is_refused(data):
    with pytest.raises(ShoalError, match="not a readable sketch"):
        Sketch.from_bytes(data[:50])


@pytest.mark.parametrize("data", ["text", 10**12, None, [1, 2]], ids=str)
def test_what_is_not_even_bytes_is_refused(data):
    with pytest.raises(ShoalError, match="not bytes"):
        Sketch.from_bytes(data)


def test_another_version_is_named():
    packed = bytearray(SKETCHES["empty"].to_bytes())
    packed[8:10] = struct.pack("<H", 2)
    with pytest.raises(ShoalError, match="version 2"):
        Sketch.from_bytes(resealed(bytes(packed)))


def field_offsets() -> dict[str, tuple[int, str]]:
    return {"owned by": (10, "B"), "bits": (11, "B"), "k": (12, "<I"), "keyed": (16, "B"), "width": (17, "B"),
            "kept": (44, "<I"), "dense": (48, "<I"), "listed": (52, "<Q"), "column listed": (60, "<H"),
            "column dense": (62, "B")}  # fmt: skip


@pytest.mark.parametrize("field", field_offsets())
def test_hostile_counts_are_refused_before_anything_is_allocated(field):
    """2^60 lengths, precision 60 and the like: the reader must not believe them."""
    at, kind = field_offsets()[field]
    packed = SKETCHES["sampled"].to_bytes()
    current = struct.unpack_from(kind, packed, at)[0]
    largest = 256 ** struct.calcsize(kind) - 1
    for wrong in {largest, largest // 2, largest // 16, 0} - {current}:
        changed = bytearray(packed)
        struct.pack_into(kind, changed, at, wrong)
        tracemalloc.start()
        with pytest.raises(ShoalError) as caught:
            Sketch.from_bytes(resealed(bytes(changed)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert caught.value.code == "E_SKETCH"
        assert peak < 50 * len(packed) + 100_000


def test_values_out_of_order_and_impossible_registers_are_refused():
    packed = bytearray(SKETCHES["sampled"].to_bytes())
    packed[HEADER_BYTES : HEADER_BYTES + 8] = b"\xff" * 8
    with pytest.raises(ShoalError, match="order"):
        Sketch.from_bytes(resealed(bytes(packed)))
    packed = bytearray(SKETCHES["sampled"].to_bytes())
    packed[-DIGEST_BYTES - 1] = 200
    with pytest.raises(ShoalError):
        Sketch.from_bytes(resealed(bytes(packed)))


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One of the ways bytes go wrong: flips, holes, repeats, splices, huge numbers, cuts."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, size = int(rng.integers(0, len(changed))), int(rng.integers(1, 17))
        match int(rng.integers(0, 7)):
            case 0:
                changed[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                changed[at : at + size] = rng.bytes(size)
            case 2:
                del changed[at : at + size]
            case 3:
                changed[at:at] = rng.bytes(size)
            case 4:
                changed[at : at + 8] = [0x00, 0xFF, 0x7F, 0x80][int(rng.integers(0, 4))].to_bytes(1, "little") * 8
            case 5:
                changed[at:at] = changed[int(rng.integers(0, len(changed))) :][:size]
            case _:
                changed[:64][at % 64 : at % 64 + 1] = rng.bytes(1)
                changed[at % min(64, len(changed))] = int(rng.integers(0, 256))
        if not changed:
            changed = bytearray(b"x")
    return bytes(changed)


def attempt(read, data: bytes) -> bool:
    """Read; True when it was a sketch after all, which then must be sound."""
    try:
        found = read(data)
    except ShoalError as error:
        if error.code != "E_SKETCH":
            raise
        return False
    sketches = [found] if isinstance(found, Sketch) else list(found.sketches.values())
    for sketch in sketches:
        assert Sketch.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
        assert 0 <= sketch.share_below(5, of="rows").low <= 1
        sketch.merge(Sketch(sketch.k, sketch.m, key=KEY)) if sketch.key_id == Sketch(key=KEY).key_id else None
    return True


@pytest.mark.slow
def test_a_hundred_thousand_mutations_are_read_safely():
    """Half as they are (the checksum stops them), half with the checksum repaired (the checks behind it must)."""
    rng = np.random.default_rng(42)
    sources = [(Sketch.from_bytes, sketch.to_bytes()) for sketch in SKETCHES.values()]
    sources.append((unpack_dataset, pack_dataset(DATASET)))
    survived, memory = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(100_000):
        read, packed = sources[number % len(sources)]
        body = mutated(packed[:-DIGEST_BYTES], rng)
        if number % 2:
            survived += attempt(read, sealed(body))
        else:
            intact = hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest() == packed[-DIGEST_BYTES:]
            assert attempt(read, body + packed[-DIGEST_BYTES:]) <= intact
    assert survived < 50_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # KiB


def test_a_few_mutations_are_read_safely_every_time():
    rng = np.random.default_rng(7)
    for sketch in SKETCHES.values():
        packed = sketch.to_bytes()
        for _ in range(200):
            attempt(Sketch.from_bytes, sealed(mutated(packed[:-DIGEST_BYTES], rng)))


@pytest.mark.parametrize(
    "header",
    [
        b"", b"{", b"[]", b"[" * 100_000, b'{"dataset":1}', b"null", b"1" * 10_000, b'"\xff"',
        b'{"dataset":"d","owner":null,"rows":-1,"notes":[],"owner_candidates":[],"sketches":[]}',
        b'{"dataset":"d","owner":null,"rows":0,"notes":[7],"owner_candidates":[],"sketches":[]}',
        b'{"dataset":"d","owner":null,"rows":0,"notes":[],"owner_candidates":[],"sketches":{}}',
        b'{"dataset":"d","owner":null,"rows":0,"notes":[],"owner_candidates":[],"sketches":[{"columns":[],"type":"","size":0}]}',
        b'{"dataset":"d","owner":null,"rows":0,"notes":[],"owner_candidates":[],"sketches":[{"columns":["a"],"type":"","size":1152921504606846976}]}',
    ],
    ids=lambda header: header[:20].decode(errors="replace"),
)  # fmt: skip
def test_hostile_headers_of_dataset_files_are_refused(header):
    with pytest.raises(ShoalError) as caught:
        unpack_dataset(sealed(b"\x89KHDS\r\n\x1a" + struct.pack("<HHI", 1, 0, len(header)) + header))
    assert caught.value.code == "E_SKETCH"


def test_a_dataset_file_keeps_everything(tmp_path):
    (path,) = write_datasets(tmp_path / "sketches", [DATASET])
    (read,) = read_datasets(tmp_path / "sketches")
    assert pack_dataset(read) == pack_dataset(DATASET)
    assert (read.name, read.owner, read.rows) == ("visits", "uid", 3_000)
    assert read_datasets(path)[0].sketches.keys() == DATASET.sketches.keys()


def test_files_and_folders_are_for_their_owner_only(tmp_path):
    (path,) = write_datasets(tmp_path / "sketches", [DATASET])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    (again,) = write_datasets(tmp_path / "sketches", [DATASET])
    assert again.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["visits.khll"]


def test_a_file_that_somebody_put_there_first_is_not_written_into(tmp_path):
    """In a folder that others can write to, a file under a name that can be guessed would be theirs to read."""
    planted = tmp_path / f".visits.khll.{os.getpid()}"
    planted.write_text("mine")
    planted.chmod(0o666)
    (path,) = write_datasets(tmp_path, [DATASET])
    assert planted.read_text() == "mine"
    assert path.stat().st_ino != planted.stat().st_ino
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_dataset_name_cannot_leave_the_folder(tmp_path):
    strange = SketchedDataset("../../etc/passwd\n", None, 0, {})
    (path,) = write_datasets(tmp_path / "sketches", [strange])
    assert path.parent == tmp_path / "sketches"
    assert read_datasets(path)[0].name == "../../etc/passwd\n"


def test_places_without_sketches_are_clear_errors(tmp_path):
    with pytest.raises(ShoalError, match="no sketches"):
        read_datasets(tmp_path)
    with pytest.raises(ShoalError, match="cannot be read"):
        read_datasets(tmp_path / "missing.khll")
    (tmp_path / "text.khll").write_text("hello")
    with pytest.raises(ShoalError, match=r"text\.khll"):
        read_datasets(tmp_path)


def test_storing_an_unkeyed_sketch_warns(tmp_path):
    from shoal.risk import UnkeyedSketchWarning

    with pytest.warns(UnkeyedSketchWarning):
        unkeyed = Sketch(key=None)
    with pytest.warns(UnkeyedSketchWarning, match="stored without a key"):
        write_datasets(tmp_path, [SketchedDataset("d", None, 0, {("a",): unkeyed})])
