"""Keys: whose hashes can be compared with whose.

A sketch is hashed under a secret that the operator keeps; the sketch stores the key's id, never the key. From the
secret come two independent SipHash keys, one for values and one for owners, so that the owners inside a sketch cannot
be looked up among the values of another.

    >>> Key(b"a secret of the operator").identity == Key(b"a secret of the operator").identity
    True
    >>> Key(None).identity is None
    True
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from functools import lru_cache
from pathlib import Path

from shoal.errors import ShoalError
from shoal.mechanisms.entropy import system_entropy
from shoal.risk.hashing.siphash import SipHash

KEY_BYTES = 32
"""Length of the keys made here."""

SHORT_KEY_BYTES = 16
"""A shorter key can be found by trying."""

_PUBLIC_SECRET = b"unkeyed"


class UnkeyedSketchWarning(UserWarning):
    """A sketch without a secret key: anyone who has it can look up any value and any owner in it."""


class Key:
    """A secret of the operator and the two hash functions under it; `Key(None)` is the public function."""

    def __init__(self, secret: bytes | None) -> None:
        if secret is not None and (not isinstance(secret, (bytes, bytearray)) or not secret):
            raise ShoalError("E_USAGE", "A key is a non-empty byte string.", hint='key=b"…", or key=None for no key.')
        self._secret = None if secret is None else bytes(secret)
        self.identity = None if secret is None else self._derived(b"key id", 16).hex()
        self.values = SipHash(self._derived(b"values", 16))
        self.owners = SipHash(self._derived(b"owners", 16))

    def __repr__(self) -> str:
        return f"Key({self.identity or 'none'})"

    @property
    def secret(self) -> bytes | None:
        """The operator's bytes; they leave this object only towards a worker of the same scan."""
        return self._secret

    def _derived(self, purpose: bytes, size: int) -> bytes:
        secret = _PUBLIC_SECRET if self._secret is None else hashlib.blake2b(self._secret, digest_size=64).digest()
        return hashlib.blake2b(purpose, key=secret, digest_size=size, person=b"shoal sketch 1").digest()


class ProcessKey:
    """Stands for "no key was named": a secret made once in each process and never stored."""

    def __repr__(self) -> str:
        return "PROCESS_KEY"


PROCESS_KEY = ProcessKey()

KeyLike = bytes | Key | ProcessKey | None


@lru_cache(maxsize=1)
def _process_key(process: int) -> Key:  # noqa: ARG001 - a forked child makes its own
    return Key(system_entropy().bytes(KEY_BYTES))


def as_key(key: KeyLike) -> Key:
    """What a caller named, as a key; warns of none at all."""
    if isinstance(key, ProcessKey):
        return _process_key(os.getpid())
    if isinstance(key, Key):
        return key
    if key is None:
        warn_unkeyed("This sketch has no key")
    return Key(key)


def warn_unkeyed(what: str) -> None:
    """Say that a sketch is open to whoever holds it."""
    warnings.warn(
        f"{what}: whoever holds it can test any guess of a value or of an owner against it. Give a secret key.",
        UnkeyedSketchWarning,
        stacklevel=3,
    )


def make_key(path: str | Path) -> None:
    """Write a fresh key of 32 random bytes, readable only by its owner; an existing file is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ShoalError("E_USAGE", f"The key file {str(path)!r} already exists and was not changed.") from None
    except OSError as error:
        raise ShoalError("E_USAGE", f"The key file {str(path)!r} was not written: {error.strerror}.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(system_entropy().bytes(KEY_BYTES))


def read_key(path: str | Path) -> bytes:
    """The bytes of a key file; at most 4096 of them, at least one."""
    try:
        with Path(path).open("rb") as file:
            secret = file.read(4097)
    except OSError as error:
        hint = f"Create one: shoal risk key {path}" if isinstance(error, FileNotFoundError) else None
        raise ShoalError(
            "E_USAGE", f"The key file {str(path)!r} cannot be read: {error.strerror}.", hint=hint
        ) from None
    if not 1 <= len(secret) <= 4096:
        raise ShoalError("E_USAGE", "A key file holds 1 to 4096 bytes.", hint="Create one: shoal risk key FILE")
    return secret


def weaknesses_of_key_file(path: str | Path, secret: bytes) -> list[str]:
    """What to say about a key file that others may read or guess."""
    said = []
    if os.name == "posix" and Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        said.append(f"other users can read the key file {str(path)!r}; run: chmod 600 {path}")
    if len(secret) < SHORT_KEY_BYTES:
        said.append(f"the key has {len(secret)} bytes and can be guessed; make a good one: shoal risk key FILE")
    return said
