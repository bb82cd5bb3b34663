"""The few Flight SQL messages that a service understands, parsed strictly: anything that is not exactly one of them is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
LARGEST = 1024 * 1024
_VARINT, _LENGTH = 0, 2

TEXT, BYTES, TEXTS, NUMBERS, FLAG = "text", "bytes", "texts", "numbers", "flag"
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "CommandStatementQuery": {1: ("query", TEXT), 2: ("transaction", BYTES)},
    "CommandPreparedStatementQuery": {1: ("handle", BYTES)},
    "ActionCreatePreparedStatementRequest": {1: ("query", TEXT), 2: ("transaction", BYTES)},
    "ActionClosePreparedStatementRequest": {1: ("handle", BYTES)},
    "CommandGetCatalogs": {},
    "CommandGetDbSchemas": {1: ("catalog", TEXT), 2: ("schemas", TEXT)},
    "CommandGetTables": {
        1: ("catalog", TEXT),
        2: ("schemas", TEXT),
        3: ("tables", TEXT),
        4: ("types", TEXTS),
        5: ("include_schema", FLAG),
    },
    "CommandGetTableTypes": {},
    "CommandGetSqlInfo": {1: ("info", NUMBERS)},
}
_ANY = {1: ("type_url", TEXT), 2: ("value", BYTES)}


class NotOffered(ShoalError):  # noqa: N818 - the service works, and has no such part
    """A part of Flight SQL that this service does not support; a driver gets UNIMPLEMENTED."""

    def __init__(self) -> None:
        super().__init__("E_UNSUPPORTED", "This service does not offer that part of Flight SQL.")


@dataclass(frozen=True, slots=True)
class Message:
    """A message by its name; fields it does not set are missing from `said`."""

    name: str
    said: dict[str, Any]


def read_command(data: bytes) -> Message:
    """A command inside google.protobuf.Any."""
    if len(data) > LARGEST:
        raise _not_understood()
    outer = _fields(data, _ANY)
    name = str(outer.get("type_url", "")).removeprefix(PREFIX)
    if f"{PREFIX}{name}" != outer.get("type_url") or name not in MESSAGES:
        raise NotOffered
    return Message(name, _fields(outer.get("value", b""), MESSAGES[name]))


def _fields(data: bytes, known: Mapping[int, tuple[str, str]]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number not in known:
            raise _not_understood()
        name, kind = known[number]
        value, position = _value(data, position, wire)
        _put(said, name, kind, value)
    return said


def _value(data: bytes, position: int, wire: int) -> tuple[int | bytes, int]:
    if wire == _VARINT:
        return _varint(data, position)
    if wire != _LENGTH:
        raise _not_understood()
    size, position = _varint(data, position)
    if size > len(data) - position:
        raise _not_understood()
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            raise _not_understood()
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise _not_understood()


def _put(said: dict[str, Any], name: str, kind: str, value: int | bytes) -> None:
    if (kind == FLAG) != isinstance(value, int) and kind != NUMBERS:
        raise _not_understood()
    if kind == NUMBERS:
        said.setdefault(name, []).extend([value] if isinstance(value, int) else _numbers(value))
        return
    if kind == TEXTS:
        said.setdefault(name, []).append(_text(value))
        return
    if name in said:
        raise _not_understood()
    said[name] = bool(value) if kind == FLAG else _text(value) if kind == TEXT else value


def _numbers(data: bytes) -> list[int]:
    found, position = [], 0
    while position < len(data):
        number, position = _varint(data, position)
        found.append(number)
    return found


def _text(value: int | bytes) -> str:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else ""
    except UnicodeDecodeError:
        raise _not_understood() from None


def _not_understood() -> ShoalError:
    return ShoalError("E_USAGE", "The message cannot be understood.")


# ---- writing ---------------------------------------------------------------------------------------------------------


def written(name: str, fields: list[tuple[int, bytes]]) -> bytes:
    """A message of fields that are bytes, inside google.protobuf.Any."""
    inner = b"".join(_written_field(number, data) for number, data in fields)
    return _written_field(1, f"{PREFIX}{name}".encode()) + _written_field(2, inner)


def _written_field(number: int, data: bytes) -> bytes:
    return _written_varint(number << 3 | _LENGTH) + _written_varint(len(data)) + data


def _written_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
