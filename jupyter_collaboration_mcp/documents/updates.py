"""Looking into Yjs binary formats without applying them."""

from __future__ import annotations

import hashlib


def decode_state(state: bytes) -> dict[int, int]:
    """A state vector as clocks by client; the order of clients in the bytes is not canonical."""
    clocks: dict[int, int] = {}
    count, at = _read(state, 0)
    for _ in range(count):
        client, at = _read(state, at)
        clocks[client], at = _read(state, at)
    return clocks


def encode_state(clocks: dict[int, int]) -> bytes:
    """The inverse of `decode_state`."""
    parts = [_write(len(clocks))]
    for client, clock in clocks.items():
        parts.append(_write(client))
        parts.append(_write(clock))
    return b"".join(parts)


def first_block(update: bytes) -> tuple[int, int] | None:
    """The client and clock at which an update begins; a pure deletion has none."""
    clients, at = _read(update, 0)
    if not clients:
        return None
    _structs, at = _read(update, at)
    client, at = _read(update, at)
    clock, _at = _read(update, at)
    return client, clock


def sole_author(update: bytes) -> int | None:
    """The client that wrote an update, if it is one; a pure deletion has none."""
    clients, at = _read(update, 0)
    if clients != 1:
        return None
    _structs, at = _read(update, at)
    client, _at = _read(update, at)
    return client


def deletions(update: bytes) -> list[tuple[int, range]]:
    """What an update deletes, which does nothing else: of which clients, from which clocks."""
    _blocks, at = _read(update, 0)
    clients, at = _read(update, at)
    found = []
    for _ in range(clients):
        client, at = _read(update, at)
        ranges, at = _read(update, at)
        for _ in range(ranges):
            clock, at = _read(update, at)
            length, at = _read(update, at)
            found.append((client, range(clock, clock + length)))
    return found


def is_deletion(update: bytes) -> bool:
    """Whether an update only deletes; such an update does not say whose it is."""
    return update[:1] == b"\0" and len(update) > 2


def deletion_key(update: bytes) -> bytes:
    """What names a deletion, in whichever order an update lists its parts."""
    parts = sorted((client, clocks.start, clocks.stop) for client, clocks in deletions(update))
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).digest()


def is_single(update: bytes) -> bool:
    """Whether an update brings one piece of one client, and no more."""
    clients, at = _read(update, 0)
    return clients == 1 and _read(update, at)[0] == 1


def deletion(client: int, clock: int, length: int) -> bytes:
    """An update that deletes what a client wrote from a clock on."""
    no_blocks, one_client, one_range = _write(0), _write(1), _write(1)
    return no_blocks + one_client + _write(client) + one_range + _write(clock) + _write(length)


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _write(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
