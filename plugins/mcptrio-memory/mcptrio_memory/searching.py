"""Finds the entities for a query, the best first.

search_nodes and completion call it in a thread. It finds everything that the reference server finds (a part of a name,
a type or an observation, ignoring case); words and ranks only add results and order them: first the entity of that
name, then those with all words or words that begin so, ranked by bm25 with the name first, then those that contain the
query literally. If there are none, words with typing mistakes count, and then any of the words. Among equals, the
entity that was changed last comes first.

Source: sqlite.org/fts5.html, "Full-text Query Syntax", "The bm25() function" and "The fts5vocab Virtual Table Module".
"""

from __future__ import annotations

from typing import Final

from .statements import Statements
from .typos import allowed_mistakes, close_words, plain

__all__ = ["MAX_FOUND_ENTITIES", "find_entities", "find_names"]

MAX_FOUND_ENTITIES: Final = 10_000
"""Entities that one search finds; those beyond are not counted."""
_WORDS: Final = 64
"""Words of a query that are used."""
_MAX_COMPARED: Final = 200_000
"""Words of the index that are compared with a word of a query; most are ruled out in less than a microsecond."""

_IN_NAMESPACE = "e.namespace = (SELECT id FROM namespaces WHERE name = ?)"


def find_entities(statements: Statements, namespace: str, query: str) -> list[int]:
    """Return at most :data:`MAX_FOUND_ENTITIES` ids. An empty query finds all entities, the last changed first."""
    folded = query.casefold().strip()
    if not folded:
        return _ids(
            statements,
            f"SELECT e.id FROM entities e WHERE {_IN_NAMESPACE} ORDER BY e.revision DESC, e.id DESC",
            (namespace,),
        )
    words = [word for word in folded.split() if any(character.isalnum() for character in word)][:_WORDS]
    quoted = [_phrase(word) for word in words]
    found = _ranked(statements, namespace, " AND ".join(quoted), folded) if quoted else []
    found += _ids(
        statements,
        f"SELECT e.id FROM search s JOIN entities e ON e.id = s.rowid WHERE {_IN_NAMESPACE}"
        " AND (instr(s.name, ?2) OR instr(s.type, ?2) OR instr(s.body, ?2))"
        " ORDER BY s.name <> ?2, instr(s.name, ?2) = 0, e.revision DESC, e.id DESC",
        (namespace, folded),
    )
    if not found and quoted:
        close = [_close_phrase(statements, word) for word in words]
        if close != quoted:
            found = _ranked(statements, namespace, " AND ".join(close), folded)
        if not found and len(close) > 1:
            found = _ranked(statements, namespace, " OR ".join(close), folded)
    return list(dict.fromkeys(found))[:MAX_FOUND_ENTITIES]


def find_names(statements: Statements, namespace: str, typed: str, limit: int) -> list[str]:
    """Return the names that contain the typed text, ignoring case."""
    rows = statements.execute(
        f"SELECT e.name FROM search s JOIN entities e ON e.id = s.rowid WHERE {_IN_NAMESPACE}"
        " AND instr(s.name, ?) ORDER BY length(e.name), e.name LIMIT ?",
        (namespace, typed.casefold(), limit),
    ).fetchall()
    return [name for (name,) in rows]


def _phrase(word: str) -> str:
    """Return the query for a word and words that begin with it; ``c++`` is only the word c."""
    return _quoted(word) + ("*" if word[-1].isalnum() else "")


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _close_phrase(statements: Statements, word: str) -> str:
    """The query for a word, and for words of the index that it may stand for with a typing mistake."""
    typed = plain(word)
    most = allowed_mistakes(typed)
    if not most:
        return _phrase(word)
    # The words of all namespaces: those of others match nothing in this one.
    rows = statements.execute(
        "SELECT term FROM temp.search_words WHERE length(term) BETWEEN ? AND ? LIMIT ?",
        (len(typed) - most, len(typed) + most, _MAX_COMPARED),
    )
    close = [_quoted(each) for each in close_words(typed, (term for (term,) in rows))]
    return f"({' OR '.join([_phrase(word), *close])})" if close else _phrase(word)


def _ranked(statements: Statements, namespace: str, match: str, folded: str) -> list[int]:
    return _ids(
        statements,
        "SELECT e.id FROM search s JOIN entities e ON e.id = s.rowid"
        f" WHERE {_IN_NAMESPACE} AND search MATCH ?"
        # Rounded, because the length of the texts makes almost every rank another one.
        " ORDER BY s.name <> ?, round(bm25(search, 10.0, 4.0, 1.0), 1), e.revision DESC, e.id DESC",
        (namespace, match, folded),
    )


def _ids(statements: Statements, statement: str, values: tuple[str, ...]) -> list[int]:
    return [
        identity for (identity,) in statements.execute(f"{statement} LIMIT {MAX_FOUND_ENTITIES}", values).fetchall()
    ]
