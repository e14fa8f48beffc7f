"""Digests and encodings of bytes. Text stands for its UTF-8 bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from eddyline.expressions.coercion import coerce
from eddyline.expressions.frame import Evaluation, Frame, RowError
from eddyline.expressions.function import function
from eddyline.expressions.limits import check_length
from eddyline.expressions.lowerings.parameters import integer, octets, takes, text
from eddyline.expressions.lowerings.rowwise import rowwise
from eddyline.model import Call, Expression
from eddyline.types import BIGINT, BINARY, STRING, is_integer

# Neither Arrow nor NumPy computes any of these: they run in Python, once per distinct value.


def _register_digest(*names: str, compute: Callable[[bytes], Any], result: pa.DataType, summary: str) -> None:
    @function(
        *names,
        typing=takes(octets, result=result),
        arguments=1,
        signature=f"{names[0]}(value)",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return rowwise(compute, arguments, frame, result)


# `usedforsecurity` lets MD5 and SHA-1 run where policy bans them for signatures: here they only tell values apart.
_register_digest(
    "md5",
    compute=lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest(),
    result=STRING,
    summary="The MD5 digest, in hexadecimal digits.",
)
_register_digest(
    "sha1",
    "sha",
    compute=lambda value: hashlib.sha1(value, usedforsecurity=False).hexdigest(),
    result=STRING,
    summary="The SHA-1 digest, in hexadecimal digits.",
)
_register_digest("crc32", compute=zlib.crc32, result=BIGINT, summary="The CRC-32 checksum.")

_SHA2 = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


@function(
    "sha2",
    typing=takes(octets, integer, result=STRING),
    arguments=2,
    signature="sha2(value, bits)",
    summary="The SHA-2 digest of 224, 256 (also 0), 384 or 512 bits, in hexadecimal digits; NULL for other sizes.",
)
def _sha2(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def digest(value: bytes, bits: int) -> str | None:
        return _SHA2[bits](value).hexdigest() if bits in _SHA2 else None

    return rowwise(digest, arguments, frame, STRING)


# ------------------------------------------------------------------------------------------ hexadecimal


def _number_or_bytes(e: Expression) -> Expression:
    return coerce(e, BIGINT) if is_integer(e.type) else octets(e)


@function(
    "hex",
    typing=takes(_number_or_bytes, result=STRING),
    arguments=1,
    signature="hex(number or bytes)",
    summary="Hexadecimal digits of a whole number (negative: of its 64 bits) or of bytes.",
)
def _hex(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if arguments[0].values.type == BIGINT:
        return rowwise(lambda n: f"{n % 2**64:X}", arguments, frame, STRING)
    return rowwise(_hex_text, arguments, frame, STRING)


def _hex_text(value: bytes) -> str:
    check_length("hex", 2 * len(value))
    return value.hex().upper()


@function(
    "unhex",
    typing=takes(text, result=BINARY),
    arguments=1,
    signature="unhex(digits)",
    summary="The bytes of hexadecimal digits; NULL if there is any other character.",
)
def _unhex(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def unhexed(digits: str) -> bytes | None:
        if not re.fullmatch(r"[0-9A-Fa-f]*", digits):
            return None
        return bytes.fromhex("0" + digits if len(digits) % 2 else digits)

    return rowwise(unhexed, arguments, frame, BINARY)


# ------------------------------------------------------------------------------------------ base 64


@function(
    "base64",
    typing=takes(octets, result=STRING),
    arguments=1,
    signature="base64(bytes)",
    summary="The bytes in base 64, in lines of 76 characters.",
)
def _base64(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def encoded(value: bytes) -> str:
        check_length("base64", len(value) // 57 * 78 + 78)  # a line of 76 characters and its end for 57 bytes
        whole = base64.b64encode(value).decode("ascii")
        return "\r\n".join(whole[at : at + 76] for at in range(0, len(whole), 76))

    return rowwise(encoded, arguments, frame, STRING)


@function(
    "unbase64",
    typing=takes(text, result=BINARY),
    arguments=1,
    signature="unbase64(text)",
    summary="The bytes of a text in base 64; characters outside its alphabet are passed over.",
)
def _unbase64(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(_base64_bytes, arguments, frame, BINARY)


def _base64_bytes(value: str) -> bytes:
    """As the MIME decoder of Java reads it: a text may lack its padding, but not end in a single digit."""
    digits, padding, rest = re.sub(r"[^A-Za-z0-9+/=]", "", value).partition("=")
    n_left = len(digits) % 4
    is_padded = (not padding) or (n_left == 2 and rest[:1] == "=") or n_left == 3
    if n_left == 1 or not is_padded or rest.strip("="):
        raise RowError("CONVERSION_INVALID_INPUT", f"{value[:100]!r} is no text in base 64")
    return binascii.a2b_base64(digits + "=" * (-n_left % 4))
