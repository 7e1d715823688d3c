"""Secrets are compared in constant time or looked up by their hash, never with ``==``.

The test reads syntax trees, because timing in a test proves nothing. The rule also has a failing example.

Source: RFC 9700 (no timing in it); CWE-208; mcptrio.ground.secret, whose ``==`` takes the same time for all guesses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent.parent
PLACES = (
    "mcptrio/auth",
    "mcptrio/runtime/request_state.py",
    "mcptrio/stores",
    "plugins/mcptrio-authserver/mcptrio_authserver",
)
SECRET = re.compile(
    r"(?:^|_)(secret|password|verifier|signature|mac|digest|hash|hashed|token|state|cookie|nonce|code|thumbprint|reveal)s?$"
)
KNOWN = {
    "claims.get('nonce') != nonce": "of an ID token whose signature is good; it was in a URL before",
    "getpass.getpass('Again: ') != password": "both are typed by the same person",
    "granted.tokens.access_token == server.granted.tokens.access_token": "Secret compares",
    "rejected.digest == digest": "of a file of ours",
    "self._nonces.get(server) != nonce": "a server's, kept by its client",
    "server.granted.tokens.access_token != refused.tokens.access_token": "Secret compares",
}
"""Comparisons with ``==`` that are allowed, with the reason why they reveal nothing."""


def comparisons(source: str) -> Iterator[str]:
    """Yield comparisons with ``==`` or ``!=`` of names that sound secret, except with literals."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or not any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            continue
        compared = [node.left, *node.comparators]
        if any(isinstance(each, ast.Constant) for each in compared):
            continue
        if any(SECRET.search(_name(each)) for each in compared):
            yield ast.unparse(node)


def _name(node: ast.expr) -> str:
    """Return the last name in an expression, or the key of a subscript."""
    while True:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
                return _name(node.args[0])
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.slice if isinstance(node.slice, ast.Constant) else node.value
        elif isinstance(node, ast.Await):
            node = node.value
        elif isinstance(node, ast.Constant):
            return str(node.value)
        else:
            return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def sources() -> list[Path]:
    found: list[Path] = []
    for place in PLACES:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def test_secrets_are_not_compared_with_equals() -> None:
    assert len(sources()) > 40
    found = {written: path for path in sources() for written in comparisons(path.read_text("utf-8"))}
    wrong = {f"{path.relative_to(ROOT)}: {written}" for written, path in found.items() if written not in KNOWN}
    assert not wrong
    assert KNOWN.keys() <= found.keys(), "what is not there any more is not known either"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("token == given", 1),
        ("if self.client_secret != form['client_secret']: raise X", 1),
        ("given == (await row())['token_hash']", 1),
        ("form.get('code_verifier') == wanted", 1),
        ("secret.reveal() == given", 1),
        ("compare_digest(token, given)", 0),
        ("token == 'none'", 0),
        ("token is None", 0),
        ("kinds['token'] == 1", 0),
    ],
)
def test_comparison_of_a_secret_is_found(source: str, count: int) -> None:
    assert len(list(comparisons(source))) == count
