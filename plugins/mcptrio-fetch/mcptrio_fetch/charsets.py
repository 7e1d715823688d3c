"""Decodes bytes to text, for everything except images, sounds and PDF files.

A page can select only encodings of the web. Python's other codecs (``zip``, ``unicode_escape``) are ignored. Bytes that
cannot be decoded become U+FFFD.

Source: WHATWG Encoding Standard, 4.2 (names, labels and the supersets of browsers) and HTML, 13.2.3 (order).
"""

from __future__ import annotations

import codecs
import re

__all__ = ["decode_text"]

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,100}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})")
_CODECS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
} | {
    name: name
    for name in [
        "utf-8",
        "utf-16-le",
        "utf-16-be",
        "gb18030",
        "cp932",
        "cp949",
        "big5hkscs",
        "euc_jp",
        "iso2022_jp",
        "koi8-r",
        "koi8-u",
        "mac-roman",
        "mac-cyrillic",
        "cp866",
        "cp874",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
        "iso8859-2",
        "iso8859-3",
        "iso8859-4",
        "iso8859-5",
        "iso8859-6",
        "iso8859-7",
        "iso8859-8",
        "iso8859-10",
        "iso8859-13",
        "iso8859-14",
        "iso8859-15",
        "iso8859-16",
    ]
}
"""Python's name of an encoding -> the codec that decodes it."""

_LABELS = {"x-sjis": "shift_jis", "windows-31j": "cp932", "x-gbk": "gbk", "x-euc-jp": "euc_jp", "x-x-big5": "big5"}


def decode_text(body: bytes, charset: str | None, *, is_complete: bool = True) -> str:
    """Decode a body by its byte order mark, ``charset``, or the page's own declaration; by default as UTF-8.

    Args:
        charset: The charset of Content-Type.
        is_complete: False if the body was truncated, perhaps within a character.
    """
    for mark, codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    declared_codec = _codec_of(charset) or _codec_of(_declared_charset(body))
    if declared_codec is not None:
        return body.decode(declared_codec, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        ends_early = not is_complete and error.start > len(body) - 4
        return body.decode("utf-8" if ends_early else "cp1252", "replace")


def _declared_charset(body: bytes) -> str | None:
    head = body[:1024]
    match = _META.search(head) or _XML.match(head.lstrip())
    if match is None:
        return None
    label = match[1].decode("ascii", "ignore").lower()
    # A page whose declaration is readable as ASCII is not UTF-16.
    return "utf-8" if label.startswith("utf-16") else label


def _codec_of(label: str | None) -> str | None:
    if not label:
        return None
    label = label.strip().lower()
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return None
    return _CODECS.get(name)
