"""Finds the entities for a query, the best first.

search_nodes and completion call it in a thread. It finds everything that the reference server finds: entities whose
name, type or observations contain the query, ignoring case. The order of the results is:

1. the entity whose name is the query;
2. entities that contain all words of the query, or words that begin with them, ranked by bm25;
3. other entities that contain the query literally.

If there are none, words with typing mistakes match, and then any of the words. Entities of equal rank are ordered by
their last change, the newest first.

Source: sqlite.org/fts5.html, "Full-text Query Syntax", "The bm25() function" and "The fts5vocab Virtual Table Module".
"""

from __future__ import annotations

from typing import Final

from .statements import Statements
from .typos import allowed_mistakes, close_words, without_diacritics

__all__ = ["MAX_FOUND_ENTITIES", "find_entities", "find_names"]

MAX_FOUND_ENTITIES: Final = 10_000
"""Maximum number of entities that one search finds and counts."""
_MAX_WORDS: Final = 64
"""Maximum number of words of a query that are used."""
_MAX_COMPARED: Final = 200_000
"""Maximum number of words of the index that are compared with a word of a query. Most take less than a microsecond."""

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
    words = [word for word in folded.split() if any(character.isalnum() for character in word)][:_MAX_WORDS]
    quoted = [_phrase(word) for word in words]
    entity_ids = _ranked_ids(statements, namespace, " AND ".join(quoted), folded) if quoted else []
    entity_ids += _ids(
        statements,
        f"SELECT e.id FROM search s JOIN entities e ON e.id = s.rowid WHERE {_IN_NAMESPACE}"
        " AND (instr(s.name, ?2) OR instr(s.type, ?2) OR instr(s.body, ?2))"
        " ORDER BY s.name <> ?2, instr(s.name, ?2) = 0, e.revision DESC, e.id DESC",
        (namespace, folded),
    )
    if not entity_ids and quoted:
        close = [_close_phrase(statements, word) for word in words]
        if close != quoted:
            entity_ids = _ranked_ids(statements, namespace, " AND ".join(close), folded)
        if not entity_ids and len(close) > 1:
            entity_ids = _ranked_ids(statements, namespace, " OR ".join(close), folded)
    return list(dict.fromkeys(entity_ids))[:MAX_FOUND_ENTITIES]


def find_names(statements: Statements, namespace: str, typed: str, limit: int) -> list[str]:
    """Return the names that contain the typed text, ignoring case."""
    rows = statements.execute(
        f"SELECT e.name FROM search s JOIN entities e ON e.id = s.rowid WHERE {_IN_NAMESPACE}"
        " AND instr(s.name, ?) ORDER BY length(e.name), e.name LIMIT ?",
        (namespace, typed.casefold(), limit),
    ).fetchall()
    return [name for (name,) in rows]


def _phrase(word: str) -> str:
    """Return the query for a word and words that begin with it. For ``c++``, only the word ``c`` matches."""
    return _quote_word(word) + ("*" if word[-1].isalnum() else "")


def _quote_word(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _close_phrase(statements: Statements, word: str) -> str:
    """Return the query for a word, and for words of the index that differ from it by typing mistakes."""
    typed = without_diacritics(word)
    max_mistakes = allowed_mistakes(typed)
    if not max_mistakes:
        return _phrase(word)
    # The index has the words of all namespaces. Words of other namespaces find no entity in this one.
    rows = statements.execute(
        "SELECT term FROM temp.search_words WHERE length(term) BETWEEN ? AND ? LIMIT ?",
        (len(typed) - max_mistakes, len(typed) + max_mistakes, _MAX_COMPARED),
    )
    close = [_quote_word(each) for each in close_words(typed, (term for (term,) in rows))]
    return f"({' OR '.join([_phrase(word), *close])})" if close else _phrase(word)


def _ranked_ids(statements: Statements, namespace: str, match: str, folded: str) -> list[int]:
    return _ids(
        statements,
        "SELECT e.id FROM search s JOIN entities e ON e.id = s.rowid"
        f" WHERE {_IN_NAMESPACE} AND search MATCH ?"
        # Rounded, because bm25 depends on the lengths of the texts, so almost no two ranks are equal.
        " ORDER BY s.name <> ?, round(bm25(search, 10.0, 4.0, 1.0), 1), e.revision DESC, e.id DESC",
        (namespace, match, folded),
    )


def _ids(statements: Statements, statement: str, values: tuple[str, ...]) -> list[int]:
    return [
        entity_id for (entity_id,) in statements.execute(f"{statement} LIMIT {MAX_FOUND_ENTITIES}", values).fetchall()
    ]
