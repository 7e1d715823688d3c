"""Signed tokens and keys: JWT, JWS, JWK. The only door to the library that does the cryptography.

Called by everything here that signs or verifies: access tokens, proofs of possession, assertions of clients.
The one rule: who verifies says which algorithms and which keys are good, and a token has no say in it; none of them is
symmetric or ``none``, so a public key can never be taken for a shared secret. Nothing is verified before it is bounded.

joserfc is loaded when the first key is made or read, and not before.

Source: RFC 7515; RFC 7517; RFC 7518 section 3; RFC 7519; RFC 7638; RFC 8037; RFC 8725; RFC 9864.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import orjson
from attrs import field, frozen

__all__ = [
    "ALGORITHMS",
    "BadKey",
    "BadToken",
    "ExpiredToken",
    "Key",
    "KeySet",
    "SignedToken",
    "named_issuer",
    "peek",
    "sign",
    "verify",
]

_MAX_TOKEN_CHARS: Final = 64 * 1024
"""Characters of a token."""
_MAX_HEADER_CHARS: Final = 8 * 1024
"""Characters of its first part; a proof's has a public key in it, of 1 KiB for RSA with 4096 bits."""
_MAX_DEPTH: Final = 16
"""Levels of objects and arrays in a token or a key set."""
_MAX_DOCUMENT_BYTES: Final = 256 * 1024
"""Bytes of a key set."""
_MAX_KEYS: Final = 100
"""Keys of a set that are read; large providers publish about ten."""
_MAX_TRIED_KEYS: Final = 8
"""Keys that are tried for a token that does not say which one it was signed with."""
_RSA_BITS: Final = range(2048, 8193)
"""Shorter ones can be broken (RFC 7518, section 3.3); longer ones are a way to keep a server busy."""
_MAX_RSA_EXPONENT: Final = 2**32
"""A larger public exponent makes a signature up to 20 times as expensive to verify; nearly all keys have 65537."""
_MAX_KEY_ID_CHARS: Final = 256
"""Characters of a key's id."""

_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members of a JWK that nobody else may see."""
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "Ed25519"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_TYPE: Final = {
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(_RSA, ("RSA", "")),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Algorithm -> type and curve of its keys."""

ALGORITHMS: Final = frozenset(_OF_TYPE)
"""All algorithms that are ever allowed, all asymmetric: a server that checks tokens must not be able to make them."""


class BadToken(ValueError):
    """Not a token, or not a good one. The message says why, and repeats nothing of it."""


class ExpiredToken(BadToken):
    """A token whose time is over."""


class BadKey(ValueError):
    """Not a key that may be used here. The message says why, and repeats nothing of it."""


@frozen(kw_only=True)
class SignedToken:
    """What a token says. Only :func:`verify` makes it worth believing."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any] = field(repr=False)


@frozen(kw_only=True, eq=False)
class Key:
    """One key of a pair, made by the class methods: RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519."""

    algorithm: str
    """What it signs with; of a public key that says nothing of it the usual one of its type."""
    id: str | None = None
    """``kid``."""
    is_private: bool = False
    fixed: bool = False
    """Whether the key itself says its algorithm, and so is good for no other."""
    _key: Any = field(repr=False, alias="key")

    @classmethod
    def generate(cls, algorithm: str = "ES256") -> Key:
        """A new private key.

        Raises:
            BadKey: no such algorithm.
        """
        kind, curve = _OF_TYPE.get(algorithm, ("", ""))
        jose = _library()
        made: Any
        if kind == "EC":
            made = jose.ECKey.generate_key(curve)
        elif kind == "OKP":
            made = jose.OKPKey.generate_key(curve)
        elif kind == "RSA":
            made = jose.RSAKey.generate_key(2048)
        else:
            raise BadKey(f"expected one of {', '.join(sorted(ALGORITHMS))}, got {algorithm[:32]!r}")
        return cls(algorithm=algorithm, id=made.thumbprint(), is_private=True, fixed=True, key=made)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> Key:
        """A public or private key that came as JSON.

        Raises:
            BadKey: it is none of the kinds above, is not for signatures, or is broken.
        """
        if not isinstance(jwk, Mapping) or not isinstance(kind := jwk.get("kty"), str):
            raise BadKey("expected a JSON Web Key, got something else")
        id, named, use, ops = jwk.get("kid"), jwk.get("alg"), jwk.get("use"), jwk.get("key_ops")
        if id is not None and not (isinstance(id, str) and len(id) <= _MAX_KEY_ID_CHARS):
            raise BadKey(f"kid: expected at most {_MAX_KEY_ID_CHARS} characters")
        if use not in (None, "sig"):
            raise BadKey("expected a key for signatures, got one for something else")
        if ops is not None and not (isinstance(ops, Sequence) and {"sign", "verify"} & {*map(str, ops)}):
            raise BadKey("expected a key for signatures, got one for something else")
        usual = "RS256" if kind == "RSA" else _CURVES.get(str(jwk.get("crv")), "")
        if not usual or _OF_TYPE[usual][0] != kind:
            raise BadKey(f"expected an RSA, EC or Ed25519 key, got {kind[:16]!r}")
        if named is not None and (named not in ALGORITHMS or _OF_TYPE[named] != _OF_TYPE[usual]):
            raise BadKey(f"alg: expected an algorithm of a key like this, got {str(named)[:32]!r}")
        # What else stands in it (certificates, lifetimes) is nobody's business here, and cannot be wrong then.
        data = {name: jwk[name] for name in ("kty", "crv", "x", "y", "n", "e", *_PRIVATE) if name in jwk}
        if not all(isinstance(value, str) and len(value) <= _MAX_HEADER_CHARS for value in data.values()):
            raise BadKey("expected a JSON Web Key, got one with members that are no strings, or long ones")
        jose = _library()
        made = _imported({"RSA": jose.RSAKey, "EC": jose.ECKey, "OKP": jose.OKPKey}[kind], data)
        return cls(algorithm=named or usual, id=id, is_private=made.is_private, fixed=named is not None, key=made)

    @classmethod
    def from_pem(cls, pem: str, *, algorithm: str | None = None, id: str | None = None) -> Key:
        """A private or public key, or the one of a certificate, in PEM and not encrypted.

        Args:
            algorithm: by default the usual one of its type: RS256, ES256 and so on.

        Raises:
            BadKey: it is something else, or cannot sign with this algorithm.
        """
        jose = _library()
        problem = "expected a key in PEM, not encrypted, got something else"
        if len(pem) > _MAX_TOKEN_CHARS or "-----BEGIN" not in pem:
            raise BadKey(problem)
        for kind in (jose.ECKey, jose.RSAKey, jose.OKPKey):
            try:
                made = _imported(kind, pem)
            except _OtherKind:
                continue
            except BadKey as error:
                raise BadKey(problem) from error
            key = cls.from_jwk({**made.as_dict(private=made.is_private), **({"kid": id} if id else {})})
            if algorithm is None:
                return key
            if algorithm not in ALGORITHMS or not key.can(algorithm):
                raise BadKey(f"expected an algorithm of a key like this, got {algorithm[:32]!r}")
            return cls(algorithm=algorithm, id=id, is_private=key.is_private, fixed=True, key=key._key)
        raise BadKey(problem)

    @property
    def public(self) -> dict[str, Any]:
        """The public half, as a JWK that can be published."""
        data = {name: value for name, value in self._key.as_dict(private=False).items() if name not in _PRIVATE}
        data = {name: value for name, value in data.items() if name in ("kty", "crv", "x", "y", "n", "e")}
        return {**data, "use": "sig", "alg": self.algorithm, **({"kid": self.id} if self.id else {})}

    @property
    def bare(self) -> dict[str, Any]:
        """The public half without its name and use, as the header of a proof has it."""
        return {name: value for name, value in self.public.items() if name not in ("use", "alg", "kid")}

    @property
    def thumbprint(self) -> str:
        """What the public half is known by (RFC 7638, SHA-256)."""
        return str(self._key.thumbprint())

    def private(self) -> dict[str, Any]:
        """All of it as a JWK, for whoever keeps it.

        Raises:
            BadKey: it is a public key.
        """
        if not self.is_private:
            raise BadKey("expected a private key, got a public one")
        return {**self._key.as_dict(private=True), "alg": self.algorithm, **({"kid": self.id} if self.id else {})}

    def can(self, algorithm: str) -> bool:
        """Whether it is a key for this algorithm."""
        if self.fixed and algorithm != self.algorithm:
            return {algorithm, self.algorithm} == {"EdDSA", "Ed25519"}  # the old name and the new one
        return _OF_TYPE.get(algorithm) == _OF_TYPE[self.algorithm]


@frozen
class KeySet:
    """Public keys that somebody publishes."""

    keys: Sequence[Key]

    @classmethod
    def read(cls, document: bytes | Mapping[str, Any]) -> KeySet:
        """A JWK set. Keys of other kinds and uses are left out, as are broken ones (RFC 7517, section 5).

        Raises:
            BadKey: it is no set, is larger than 256 KiB, or has more than 100 keys.
        """
        if isinstance(document, bytes):
            if len(document) > _MAX_DOCUMENT_BYTES:
                raise BadKey(f"expected at most {_MAX_DOCUMENT_BYTES // 1024} KiB of keys, got {len(document)} bytes")
            try:
                document = orjson.loads(document)
            except ValueError as error:
                raise BadKey("expected a JSON Web Key set, got something that is no JSON") from error
        listed = document.get("keys") if isinstance(document, Mapping) else None
        if not isinstance(listed, list):
            raise BadKey("expected a JSON Web Key set: an object with a list of keys")
        if len(listed) > _MAX_KEYS:
            raise BadKey(f"expected at most {_MAX_KEYS} keys, got {len(listed)}")
        return cls(tuple(_readable(listed)))

    @property
    def document(self) -> dict[str, Any]:
        """What is published."""
        return {"keys": [key.public for key in self.keys]}

    def has(self, id: str) -> bool:
        return any(key.id == id for key in self.keys)

    def candidates(self, header: Mapping[str, Any]) -> list[Key]:
        """The keys that a token with this header may have been signed with, a few at most."""
        id, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str):
            return []
        # A key without an id may be meant by any; one with an id only by its own.
        fitting = [key for key in self.keys if (id is None or key.id in (id, None)) and key.can(algorithm)]
        return fitting[:_MAX_TRIED_KEYS]


def sign(claims: Mapping[str, Any], key: Key, *, typ: str = "JWT", header: Mapping[str, Any] | None = None) -> str:
    """A token with these claims.

    Args:
        header: members beside ``alg``, ``typ`` and ``kid``.

    Raises:
        BadKey: it is a public key.
    """
    if not key.is_private:
        raise BadKey("expected a private key, got a public one")
    full = {"alg": key.algorithm, "typ": typ, **({"kid": key.id} if key.id else {}), **(header or {})}
    jose = _library()
    token: str = jose.serialize(full, orjson.dumps(dict(claims)), key._key, registry=jose.registry)
    return token


def peek(token: str) -> SignedToken:
    """What a token says, true or not: to find out which key it needs. Believe nothing of it.

    Raises:
        BadToken: it is none.
    """
    if len(token) > _MAX_TOKEN_CHARS:
        raise BadToken(f"expected at most {_MAX_TOKEN_CHARS} characters, got {len(token)}")
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        raise BadToken("expected a signed JWT of three parts, got something else")
    if len(parts[0]) > _MAX_HEADER_CHARS:
        raise BadToken(f"expected a header of at most {_MAX_HEADER_CHARS} characters, got {len(parts[0])}")
    return SignedToken(header=_json_part(parts[0], "header"), claims=_json_part(parts[1], "payload"))


def named_issuer(token: str) -> str | None:
    """The issuer that a token names, true or not; ``None`` where it is no JWT, or names none."""
    try:
        issuer = peek(token).claims.get("iss")
    except BadToken:
        return None
    return issuer if isinstance(issuer, str) else None


def verify(
    token: str, keys: KeySet | Key, *, algorithms: Iterable[str], typ: Collection[str] | None = None
) -> SignedToken:
    """What a token says, after its signature was found good. The claims are yet to be judged.

    Args:
        keys: those of whoever should have signed it.
        algorithms: that are good here, of :data:`ALGORITHMS`.
        typ: which types are good, if it matters: in lower case, without ``application/``; ``""`` for none.

    Raises:
        BadToken: it was signed by nobody of them, or is no token.
    """
    allowed = ALGORITHMS & {*algorithms}
    seen = peek(token)
    header = seen.header
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise BadToken(f"alg: expected one of {', '.join(sorted(allowed))}, got {str(algorithm)[:32]!r}")
    if "crit" in header:
        raise BadToken("crit: expected no critical extensions, got some")  # none is understood (RFC 7515, 4.1.11)
    if typ is not None and _type_of(header) not in typ:
        raise BadToken(f"typ: expected {' or '.join(sorted(typ))}, got {str(header.get('typ'))[:64]!r}")
    if isinstance(keys, Key):
        candidates = [keys] if keys.can(algorithm) else []
    else:
        candidates = keys.candidates(header)
    if not candidates:
        raise BadToken("there is no key for it")
    if any(_is_signed_by(token, key, algorithm) for key in candidates):
        return seen
    raise BadToken("the signature is not good")


def _is_signed_by(token: str, key: Key, algorithm: str) -> bool:
    jose = _library()
    try:
        jose.deserialize(token, key._key, [algorithm], registry=jose.registry)
    except (*jose.failures, RecursionError):
        return False
    return True


def _type_of(header: Mapping[str, Any]) -> str:
    # RFC 7515, section 4.1.9: "application/" may be left out, and case does not count.
    return str(header.get("typ", "")).lower().removeprefix("application/")


def _json_part(part: str, name: str) -> dict[str, Any]:
    try:
        value = orjson.loads(b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error) as error:
        raise BadToken(f"expected JSON in the {name} of a token, got something else") from error
    if not isinstance(value, dict) or _is_deeper(value, _MAX_DEPTH):
        raise BadToken(f"expected an object in the {name} of a token, of at most {_MAX_DEPTH} levels")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _readable(listed: list[Any]) -> Iterator[Key]:
    for each in listed:
        if isinstance(each, Mapping) and not _PRIVATE.isdisjoint(each):
            continue  # whoever publishes a private key has none that can be trusted
        try:
            yield Key.from_jwk(each)
        except BadKey:
            continue


class _OtherKind(BadKey):
    """A key of another type than the one it was read as."""


def _imported(kind: Any, data: Any) -> Any:
    """A key of the library.

    Raises:
        _OtherKind: PEM of another type of key.
        BadKey: it is broken, or weak.
    """
    jose = _library()
    try:
        # The numbers first: the library warns of short keys and reads long ones. Its own objects are made lazily.
        raw = (
            kind.binding.import_from_dict(data)
            if isinstance(data, dict)
            else kind.binding.import_from_bytes(data.encode())
        )
        size = getattr(raw, "key_size", 0)
        if kind is jose.RSAKey:
            if size not in _RSA_BITS:
                raise BadKey(f"expected an RSA key of {_RSA_BITS[0]} to {_RSA_BITS[-1]} bits, got {size}")
            public = raw.public_key() if hasattr(raw, "public_key") else raw
            if public.public_numbers().e > _MAX_RSA_EXPONENT:
                raise BadKey(f"expected an RSA key with a public exponent of at most {_MAX_RSA_EXPONENT}")
        made = kind(raw, data)
        if not isinstance(data, dict):
            made.dict_value  # noqa: B018 - here, where what fails is caught
    except jose.other_kind as error:
        raise _OtherKind("expected another type of key") from error
    except jose.failures as error:
        raise BadKey("expected a JSON Web Key, got a broken one") from error
    return made


class _Library:
    """What is used of joserfc."""

    def __init__(self) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from joserfc import jwk, jws
        from joserfc.errors import InvalidKeyTypeError, JoseError

        class LongHeaderRegistry(jws.JWSRegistry):
            """Larger headers than usual, since there are keys in them, and no warnings: what is allowed is ours."""

            max_header_length = _MAX_HEADER_CHARS
            max_payload_length = _MAX_TOKEN_CHARS
            max_signature_length = 2048

            def get_alg(self, name: str) -> Any:
                if name not in ALGORITHMS:
                    raise JoseError(f"{name} is not allowed")
                return self.algorithms[name]

        self.registry = LongHeaderRegistry(strict_check_header=False)
        self.RSAKey: Any = jwk.RSAKey
        self.ECKey: Any = jwk.ECKey
        self.OKPKey: Any = jwk.OKPKey
        self.serialize, self.deserialize = jws.serialize_compact, jws.deserialize_compact
        self.other_kind = InvalidKeyTypeError
        # Beside its own errors it lets through those of what it calls.
        self.failures = (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError)


@cache
def _library() -> _Library:
    return _Library()
