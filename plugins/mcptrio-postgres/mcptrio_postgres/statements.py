"""Checks a statement by its tokens, before the server parses it.

PostgreSQL enforces that a reading statement changes nothing: it is the query of a cursor in a READ ONLY transaction,
which is rolled back. Some functions have effects outside of a transaction, such as reading a file of the server's
machine, so this module refuses calls of them. The check improves messages and prevents accidents. It does not replace a
role with few rights, because a function in the database can hide such a call.

Source: PostgreSQL 15 documentation, 4.1 "Lexical Structure" and 9.27 "System Administration Functions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from mcptrio import ToolError

__all__ = ["Token", "first_word", "single_statement", "tokens"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)|(?:[uU]&|[bBxXnN])?'(?:[^']|'')*(?:'|\Z))
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*(?:"|\Z))
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<word>[^\W\d][\w$]*)
    | (?P<other>\$\d+|\d[\w.]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_REFUSED_FUNCTIONS: Final = re.compile(
    r"""
    set_config | dblink\w* | crosstab\w* | connectby | ts_stat | (?:query|cursor|table|schema|database)_to_xml\w*
    | pg_read_file | pg_read_binary_file | pg_read_server_file\w* | pg_ls_\w+ | pg_stat_file | pg_file_\w+
    | lo_\w+ | pg_terminate_backend | pg_cancel_backend | pg_reload_conf | pg_rotate_logfile\w* | pg_promote
    | pg_switch_wal | pg_create_\w+ | pg_drop_\w+ | pg_copy_\w+_slot | pg_replication_\w+ | pg_logical_\w+
    | pg_backup_\w+ | pg_start_backup | pg_stop_backup | pg_wal_replay_\w+ | pg_log_\w+ | pg_prewarm | autoprewarm\w*
    | pg_stat_\w*reset\w* | pg_stat_reset\w* | (?:pg_)?(?:try_)?advisory\w* | pg_try_advisory\w* | pg_notify
    | pg_import_\w+ | brin_\w+ | gin_clean_pending_list
    """,
    re.VERBOSE,
)

# The role pg_read_all_data, with which a superuser reads, may read these catalogs.
_SECRET_CATALOGS: Final = frozenset(
    {"pg_authid", "pg_shadow", "pg_user_mapping", "pg_user_mappings", "pg_subscription", "pg_hba_file_rules"}
)


@frozen
class Token:
    """A word, a string or another symbol of a statement. Spaces and comments are not tokens."""

    kind: str
    text: str
    start: int

    @property
    def name(self) -> str:
        """The name that a word or a quoted word stands for."""
        if self.kind == "quoted":
            return self.text.partition('"')[2].removesuffix('"').replace('""', '"')
        return self.text.lower()


def tokens(sql: str) -> Iterator[Token]:
    """Yield the tokens of a text."""
    position = 0
    while match := _TOKEN.match(sql, position):
        kind = match.lastgroup if match.lastgroup != "tag" else "dollar"
        position = match.end()
        if kind == "comment":
            position = _comment_end(sql, position)
        elif kind != "space":
            yield Token(kind or "other", match[0], match.start())


def single_statement(sql: str, allowed: Sequence[str], purpose: str) -> str:
    """Return the only statement in a text, without a semicolon at its end.

    Args:
        allowed: The words with which the statement may begin.
        purpose: The end of the error if it begins with another word.

    Raises:
        ToolError: There is no statement or several, the statement begins with another word, or it names a refused
            function or catalog.
    """
    token_list = list(tokens(sql))
    ends = [each for each in token_list if each.kind == "other" and each.text == ";"]
    before = [each for each in token_list if not ends or each.start < ends[0].start]
    if len(token_list) > len(before) + len(ends):
        raise ToolError("expected one statement, got several; call the tool once for each")
    word = first_word(before)
    if word not in allowed:
        raise ToolError(f"expected {_join_words(allowed)}, got {word[:60].upper() or 'no statement'}; {purpose}")
    _refuse_names(before)
    return sql[: ends[0].start] if ends else sql


def first_word(statement_tokens: Sequence[Token]) -> str:
    """Return the first word of a statement in lower case, or its first symbol if that is not a word."""
    return next((each.name if each.kind == "word" else each.text for each in statement_tokens if each.text != "("), "")


def _refuse_names(statement_tokens: Sequence[Token]) -> None:
    for token, after in zip(statement_tokens, [*statement_tokens[1:], Token("other", "", 0)], strict=True):
        if token.kind not in ("word", "quoted"):
            continue
        if token.text[:2] in ("u&", "U&") and "\\" in token.text:
            raise ToolError(f"expected a name without escapes, got {token.text[:60]}")
        if token.name in _SECRET_CATALOGS:
            raise ToolError(f"the catalog {token.name} is not allowed: it may contain passwords")
        if after.text == "(" and _REFUSED_FUNCTIONS.fullmatch(token.name):
            raise ToolError(
                f"the function {token.name} is not allowed: its effects are not limited to this query's transaction"
            )


def _comment_end(sql: str, position: int) -> int:
    """Return the end of a comment, which may contain other comments."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(sql, position):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(sql)


def _join_words(message: Sequence[str]) -> str:
    *others, last = [word.upper() for word in message]
    return f"{', '.join(others)} or {last}" if others else last
