"""Signed tokens and keys: JWT, JWS and JWK. The only module that calls joserfc.

Access tokens, DPoP proofs and client assertions are signed and verified here. The verifier chooses the accepted keys
and algorithms; the token does not.

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

_MAX_TOKEN_CHARS: Final = 64 * 1024  # checked before anything is decoded
_MAX_HEADER_CHARS: Final = 8 * 1024  # encoded; that of a DPoP proof contains a public key, 1 KiB for RSA with 4096 bits
_MAX_DEPTH: Final = 16  # levels of objects and arrays in a token or a key set
_MAX_DOCUMENT_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100  # in a set; large providers publish about ten
_MAX_TRIED_KEYS: Final = 8  # for a token without kid: each costs one signature check
# RFC 7518 section 3.3 requires 2048 bits or more. Verification with longer keys than 8192 bits could be used to keep
# the server busy.
_RSA_BITS: Final = range(2048, 8193)
_MAX_RSA_EXPONENT: Final = 2**32  # a larger one makes verification up to 20 times as expensive; nearly all use 65537
_MAX_KEY_ID_CHARS: Final = 256

PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # secret members, RFC 7518 section 6
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "Ed25519"}
_RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_KEY_TYPES: Final = {  # key type and curve by algorithm
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(_RSA_ALGORITHMS, ("RSA", "")),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}

ALGORITHMS: Final = frozenset(_KEY_TYPES)
"""All algorithms that may be used. None is symmetric or ``none``, so a public key is never taken for a shared secret
and a server that verifies tokens cannot issue them."""


class BadToken(ValueError):
    """A token is malformed or invalid. The message has the reason and repeats no part of the token."""


class ExpiredToken(BadToken):
    """A token has expired."""


class BadKey(ValueError):
    """A key is malformed or not allowed. The message has the reason and repeats no part of the key."""


@frozen(kw_only=True)
class SignedToken:
    """The header and claims of a token. Trustworthy only if :func:`verify` returned it."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any] = field(repr=False)


@frozen(kw_only=True, eq=False)
class Key:
    """A public or private key, made by the class methods: RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519."""

    algorithm: str
    """The algorithm with which it signs; for a public key without ``alg``, the usual one of its type."""
    id: str | None = None
    """The key id (``kid``)."""
    is_private: bool = False
    fixed: bool = False
    """True if the key names its algorithm, and so may not be used with another."""
    _key: Any = field(repr=False, alias="key")

    @classmethod
    def generate(cls, algorithm: str = "ES256") -> Key:
        """Return a new private key.

        Raises:
            BadKey: The algorithm is unknown.
        """
        kind, curve = _KEY_TYPES.get(algorithm, ("", ""))
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
        """Return the public or private key of a JWK.

        Raises:
            BadKey: The key has another type, is not for signatures, or is malformed.
        """
        if not isinstance(jwk, Mapping) or not isinstance(kind := jwk.get("kty"), str):
            raise BadKey("expected a JSON Web Key: an object with `kty`")
        id, named, use, ops = jwk.get("kid"), jwk.get("alg"), jwk.get("use"), jwk.get("key_ops")
        if id is not None and not (isinstance(id, str) and len(id) <= _MAX_KEY_ID_CHARS):
            raise BadKey(f"kid: expected {_MAX_KEY_ID_CHARS} characters or fewer, got {str(id)[:20]!r}")
        if use not in (None, "sig"):
            raise BadKey(f"use: expected sig, for signatures, got {str(use)[:32]!r}")
        # RFC 7517 sections 4.2 and 4.3: a key for encryption must not verify signatures.
        if ops is not None and not (isinstance(ops, Sequence) and {"sign", "verify"} & {*map(str, ops)}):
            raise BadKey(f"key_ops: expected sign or verify among them, got {str(ops)[:80]!r}")
        # Without alg, the algorithm follows from the type and curve, never from a token.
        usual = "RS256" if kind == "RSA" else _CURVES.get(str(jwk.get("crv")), "")
        if not usual or _KEY_TYPES[usual][0] != kind:
            raise BadKey(f"expected an RSA, EC or Ed25519 key, got {kind[:16]!r}")
        if named is not None and (named not in ALGORITHMS or _KEY_TYPES[named] != _KEY_TYPES[usual]):
            raise BadKey(f"alg: expected an algorithm for this type of key, got {str(named)[:32]!r}")
        # The other members (certificates, lifetimes) are not used, so errors in them do not matter.
        data = {name: jwk[name] for name in ("kty", "crv", "x", "y", "n", "e", *PRIVATE_MEMBERS) if name in jwk}
        if not all(isinstance(value, str) and len(value) <= _MAX_HEADER_CHARS for value in data.values()):
            raise BadKey("expected a JSON Web Key, got one whose members are not strings or are too long")
        jose = _library()
        made = _import_key({"RSA": jose.RSAKey, "EC": jose.ECKey, "OKP": jose.OKPKey}[kind], data)
        return cls(algorithm=named or usual, id=id, is_private=made.is_private, fixed=named is not None, key=made)

    @classmethod
    def from_pem(cls, pem: str, *, algorithm: str | None = None, id: str | None = None) -> Key:
        """Return the key of an unencrypted PEM text: a private key, a public key, or the public key of a certificate.

        Args:
            pem: The PEM text.
            algorithm: The algorithm of the key; by default the usual one of its type (RS256, ES256 and so on).
            id: The key id.

        Raises:
            BadKey: The text is not such a key, or the key cannot be used with the algorithm.
        """
        jose = _library()
        problem = "expected a key in PEM, not encrypted, got something else"
        if len(pem) > _MAX_TOKEN_CHARS or "-----BEGIN" not in pem:
            raise BadKey(problem)
        # A PEM label such as PUBLIC KEY does not name the key type, so try each.
        for kind in (jose.ECKey, jose.RSAKey, jose.OKPKey):
            try:
                made = _import_key(kind, pem)
            except _OtherKeyType:
                continue
            except BadKey as error:
                raise BadKey(problem) from error
            key = cls.from_jwk({**made.as_dict(private=made.is_private), **({"kid": id} if id else {})})
            if algorithm is None:
                return key
            if algorithm not in ALGORITHMS or not key.can(algorithm):
                raise BadKey(f"expected an algorithm for this type of key, got {algorithm[:32]!r}")
            return cls(algorithm=algorithm, id=id, is_private=key.is_private, fixed=True, key=key._key)
        raise BadKey(problem)

    @property
    def public(self) -> dict[str, Any]:
        """The public key as a JWK for publication, with its use, algorithm and id."""
        data = {name: value for name, value in self._key.as_dict(private=False).items() if name not in PRIVATE_MEMBERS}
        data = {name: value for name, value in data.items() if name in ("kty", "crv", "x", "y", "n", "e")}
        return {**data, "use": "sig", "alg": self.algorithm, **({"kid": self.id} if self.id else {})}

    @property
    def bare(self) -> dict[str, Any]:
        """The public key as a JWK without use, algorithm and id, for the header of a DPoP proof."""
        return {name: value for name, value in self.public.items() if name not in ("use", "alg", "kid")}

    @property
    def thumbprint(self) -> str:
        """The SHA-256 thumbprint of the public key (RFC 7638)."""
        return str(self._key.thumbprint())

    def private(self) -> dict[str, Any]:
        """Return the whole key as a JWK, for storage.

        Raises:
            BadKey: It is a public key.
        """
        if not self.is_private:
            raise BadKey("expected a private key, got a public one")
        return {**self._key.as_dict(private=True), "alg": self.algorithm, **({"kid": self.id} if self.id else {})}

    def can(self, algorithm: str) -> bool:
        """Return whether the key can be used with an algorithm."""
        if self.fixed and algorithm != self.algorithm:
            # RFC 9864 renamed EdDSA with an Ed25519 key to Ed25519.
            return {algorithm, self.algorithm} == {"EdDSA", "Ed25519"}
        return _KEY_TYPES.get(algorithm) == _KEY_TYPES[self.algorithm]


@frozen
class KeySet:
    """A set of public keys that an issuer or a client publishes."""

    keys: Sequence[Key]

    @classmethod
    def read(cls, document: bytes | Mapping[str, Any]) -> KeySet:
        """Return the usable keys of a JWK set.

        Keys of other types or uses, and malformed ones, are left out (RFC 7517 section 5).

        Raises:
            BadKey: The document is not a JWK set, is larger than 256 KiB, or has more than 100 keys.
        """
        if isinstance(document, bytes):
            if len(document) > _MAX_DOCUMENT_BYTES:
                raise BadKey(f"expected at most {_MAX_DOCUMENT_BYTES // 1024} KiB of keys, got {len(document)} bytes")
            try:
                document = orjson.loads(document)
            except ValueError as error:
                raise BadKey("expected a JSON Web Key set, got invalid JSON") from error
        listed = document.get("keys") if isinstance(document, Mapping) else None
        if not isinstance(listed, list):
            raise BadKey("expected a JSON Web Key set: an object with a list of keys")
        if len(listed) > _MAX_KEYS:
            raise BadKey(f"expected at most {_MAX_KEYS} keys, got {len(listed)}")
        return cls(tuple(_usable_keys(listed)))

    @property
    def document(self) -> dict[str, Any]:
        """The JWK set for publication."""
        return {"keys": [key.public for key in self.keys]}

    def has(self, id: str) -> bool:
        return any(key.id == id for key in self.keys)

    def candidates(self, header: Mapping[str, Any]) -> list[Key]:
        """Return the keys with which a token with this header may have been signed, at most 8."""
        id, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str):
            return []
        # A key without an id can match any kid; a key with an id matches only that kid, or a token without one.
        fitting = [key for key in self.keys if (id is None or key.id in (id, None)) and key.can(algorithm)]
        return fitting[:_MAX_TRIED_KEYS]


def sign(claims: Mapping[str, Any], key: Key, *, typ: str = "JWT", header: Mapping[str, Any] | None = None) -> str:
    """Return a signed token with these claims.

    Args:
        claims: The payload, as a JSON object.
        key: A private key.
        typ: The ``typ`` header.
        header: Header members in addition to ``alg``, ``typ`` and ``kid``.

    Raises:
        BadKey: The key is a public key.
    """
    if not key.is_private:
        raise BadKey("expected a private key, got a public one")
    full = {"alg": key.algorithm, "typ": typ, **({"kid": key.id} if key.id else {}), **(header or {})}
    jose = _library()
    token: str = jose.serialize(full, orjson.dumps(dict(claims)), key._key, registry=jose.registry)
    return token


def peek(token: str) -> SignedToken:
    """Return the header and claims of a token without verifying its signature, to find the key for it.

    The result must not be trusted.

    Raises:
        BadToken: The text is not a signed JWT.
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
    """Return the issuer that a token claims to have, unverified; ``None`` if it is not a JWT or has no ``iss``."""
    try:
        issuer = peek(token).claims.get("iss")
    except BadToken:
        return None
    return issuer if isinstance(issuer, str) else None


def verify(
    token: str, keys: KeySet | Key, *, algorithms: Iterable[str], typ: Collection[str] | None = None
) -> SignedToken:
    """Verify the signature of a token and return its header and claims. The caller checks the claims.

    Args:
        token: The JWT in compact form.
        keys: The keys of the expected signer.
        algorithms: The accepted algorithms, a subset of :data:`ALGORITHMS`.
        typ: The accepted types in lower case without ``application/``, ``""`` for none; ``None`` accepts all.

    Raises:
        BadToken: The token is malformed, or none of the keys signed it.
    """
    allowed = ALGORITHMS & {*algorithms}
    seen = peek(token)
    header = seen.header
    algorithm = header.get("alg")
    # RFC 8725 section 3.1: the verifier chooses the algorithms, whatever the header names.
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise BadToken(f"alg: expected one of {', '.join(sorted(allowed))}, got {str(algorithm)[:32]!r}")
    if "crit" in header:
        # RFC 7515 section 4.1.11: an extension that is not understood must be rejected; none is understood here.
        raise BadToken("crit: expected no critical extensions, got some")
    if typ is not None and _type_of(header) not in typ:
        raise BadToken(f"typ: expected {' or '.join(sorted(typ))}, got {str(header.get('typ'))[:64]!r}")
    if isinstance(keys, Key):
        candidates = [keys] if keys.can(algorithm) else []
    else:
        candidates = keys.candidates(header)
    if not candidates:
        raise BadToken("no key matches kid and alg of the token")
    if any(_is_signed_by(token, key, algorithm) for key in candidates):
        return seen
    raise BadToken("invalid signature")


def _is_signed_by(token: str, key: Key, algorithm: str) -> bool:
    jose = _library()
    try:
        jose.deserialize(token, key._key, [algorithm], registry=jose.registry)
    # The library decodes the header with its own JSON parser, which may reach the recursion limit.
    except (*jose.failures, RecursionError):
        return False
    return True


def _type_of(header: Mapping[str, Any]) -> str:
    # RFC 7515 section 4.1.9: "application/" may be omitted, and media types are case-insensitive.
    return str(header.get("typ", "")).lower().removeprefix("application/")


def _json_part(part: str, name: str) -> dict[str, Any]:
    try:
        # JWTs omit the padding that b64decode requires; validate=True rejects characters it would otherwise skip.
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


def _usable_keys(listed: list[Any]) -> Iterator[Key]:
    for each in listed:
        # A published private key may be known to anyone, so its signatures prove nothing.
        if isinstance(each, Mapping) and not PRIVATE_MEMBERS.isdisjoint(each):
            continue
        try:
            yield Key.from_jwk(each)
        except BadKey:
            continue


class _OtherKeyType(BadKey):
    """The key has another type than the class that was tried."""


def _import_key(kind: Any, data: Any) -> Any:
    jose = _library()
    try:
        # Import the numbers first: the library only warns about short keys and reads long ones completely. Its own key
        # objects are lazy, so errors would surface later.
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
            made.dict_value  # noqa: B018 - computed now, while errors are caught
    except jose.other_kind as error:
        raise _OtherKeyType("expected another type of key") from error
    except jose.failures as error:
        raise BadKey("expected a JSON Web Key, got an invalid one") from error
    return made


class _Library:
    """The parts of joserfc in use, imported when the first key is made or read."""

    def __init__(self) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from joserfc import jwk, jws
        from joserfc.errors import InvalidKeyTypeError, JoseError

        class LongHeaderRegistry(jws.JWSRegistry):
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
        # joserfc also lets exceptions of its dependencies through.
        self.failures = (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError)


@cache
def _library() -> _Library:
    return _Library()
