"""A connection to a PostgreSQL server, for one task at a time.

The pool opens it in a thread, because libpq resolves names and negotiates TLS with blocking calls. Statements run in
the task: the socket is non-blocking and the task waits for it with Trio, so a call can be cancelled at any time.

Source: PostgreSQL 15 documentation, 34.4 "Asynchronous Command Processing"; psycopg 3.2, "pq – libpq wrapper module".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
import trio
from attrs import frozen
from psycopg import pq

from .address import PostgresAddress

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

__all__ = ["ConnectionLost", "ParsedStatement", "PostgresConnection", "StatementFailed"]

_CANCEL_TIMEOUT: Final = 3.0
"""Seconds to deliver a cancel request."""
_MIN_SERVER: Final = 140_000
_FINAL_STATUSES: Final = (
    pq.ExecStatus.COMMAND_OK,
    pq.ExecStatus.TUPLES_OK,
    pq.ExecStatus.EMPTY_QUERY,
    pq.ExecStatus.FATAL_ERROR,
)
"""The states of a result that ends a statement."""

Parameters = Sequence[str | None]
"""Values in PostgreSQL's text form. The server infers their types."""


class ConnectionLost(Exception):
    """The connection cannot be used any more. The message contains no password."""


class StatementFailed(Exception):
    """PostgreSQL reported an error for one statement. The connection can be used again."""

    def __init__(self, result: PGresult) -> None:
        super().__init__(_field(result, pq.DiagnosticField.MESSAGE_PRIMARY))
        self.code = _field(result, pq.DiagnosticField.SQLSTATE)
        self.detail = _field(result, pq.DiagnosticField.MESSAGE_DETAIL)
        self.hint = _field(result, pq.DiagnosticField.MESSAGE_HINT)
        self.position = int(_field(result, pq.DiagnosticField.STATEMENT_POSITION) or 0)
        """The position of the error in the statement in characters, from 1; 0 if unknown."""


@frozen
class ParsedStatement:
    """A statement that PostgreSQL has parsed, but not run."""

    columns: tuple[str, ...]
    types: tuple[int, ...]
    """The oid of the type of each column."""
    sizes: tuple[int, ...]
    """The length of the type of each column; negative if it varies."""
    parameter_types: tuple[int, ...]


class PostgresConnection:
    """A connection in autocommit mode.

    Args:
        address: The address, which removes the password from errors.
        connection: The connection of psycopg.
    """

    def __init__(self, address: PostgresAddress, connection: psycopg.Connection) -> None:
        self._address = address
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._is_idle = True

    @classmethod
    def open(cls, address: PostgresAddress, timeout: float) -> PostgresConnection:
        """Connect. Blocks; called in a thread.

        Raises:
            ConnectionLost: The server is unreachable, refuses the user, or is too old.
        """
        try:
            connection = psycopg.connect(
                **{**address.parameters, "connect_timeout": int(timeout)}, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            # libpq puts each address, and its hint, on a line of its own.
            lines = [" ".join(line.split()) for line in str(error).splitlines()]
            message = address.without_password("; ".join(line for line in lines if line))
        else:
            if connection.info.server_version >= _MIN_SERVER:
                return cls(address, connection)
            message = f"expected PostgreSQL 14 or newer, got {connection.info.server_version // 10_000}"
            connection.close()
        # Raised here: the traceback of psycopg's error would hold the socket of the failed attempt.
        raise ConnectionLost(message)

    @property
    def is_idle(self) -> bool:
        """True if no statement is running, so that the connection can be used again."""
        return self._is_idle and self._pgconn.status == pq.ConnStatus.OK

    @property
    def is_superuser(self) -> bool:
        return self._pgconn.parameter_status(b"is_superuser") == b"on"

    async def run(self, sql: str) -> None:
        """Run statements of the plugin without parameters."""
        await self._collect(lambda: self._pgconn.send_query(sql.encode()))

    async def execute(
        self,
        sql: str,
        parameters: Parameters = (),
        types: Sequence[int] = (),
        *,
        on_row: Callable[[PGresult], None] | None = None,
    ) -> PGresult:
        """Run one statement and return its result. The server refuses a text with several statements.

        Args:
            on_row: Receives each row as a separate result; the returned result has no rows then.
        """
        values = [None if each is None else each.encode() for each in parameters]

        def send() -> None:
            self._pgconn.send_query_params(sql.encode(), values, param_types=types or None)
            if on_row is not None:
                self._pgconn.set_single_row_mode()

        return await self._collect(send, on_row)

    async def prepare(self, sql: str, *, name: str = "") -> ParsedStatement:
        """Let the server parse one statement without running it."""
        await self._collect(lambda: self._pgconn.send_prepare(name.encode(), sql.encode()))
        results = await self._collect(lambda: self._pgconn.send_describe_prepared(name.encode()))
        columns = range(results.nfields)
        return ParsedStatement(
            columns=tuple(_text(results.fname(at)) for at in columns),
            types=tuple(results.ftype(at) for at in columns),
            sizes=tuple(results.fsize(at) for at in columns),
            parameter_types=tuple(results.param_type(at) for at in range(results.nparams)),
        )

    def abandon(self) -> None:
        """Cancel the running statement on the server, and close the connection. Blocks for at most a few seconds; must
        be called in a thread."""
        with suppress(psycopg.Error, OSError):
            if not self._is_idle:
                self._connection.cancel_safe(timeout=_CANCEL_TIMEOUT)
        self.close()

    def close(self) -> None:
        self._is_idle = False
        with suppress(psycopg.Error):
            self._connection.close()

    async def _collect(self, send: Callable[[], None], on_row: Callable[[PGresult], None] | None = None) -> PGresult:
        # Set to True only at the end of the statement, so a cancelled call leaves it False.
        self._is_idle = False
        try:
            last = await self._exchange(send, on_row)
        except psycopg.Error as error:
            message = self._address.without_password(" ".join(str(error).split()))
        else:
            if self._pgconn.status == pq.ConnStatus.OK:
                self._is_idle = True
                if last.status == pq.ExecStatus.FATAL_ERROR:
                    raise StatementFailed(last)
                return last
            message = str(StatementFailed(last)) or "the server closed the connection"
        raise ConnectionLost(message)

    async def _exchange(self, send: Callable[[], None], on_row: Callable[[PGresult], None] | None) -> PGresult:
        """Send a command, wait for its results, and return the first error or else the last result."""
        pgconn = self._pgconn
        send()
        while pgconn.flush():
            await trio.lowlevel.wait_writable(pgconn.socket)
        last: PGresult | None = None
        while True:
            while pgconn.is_busy():
                await trio.lowlevel.wait_readable(pgconn.socket)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.SINGLE_TUPLE and on_row is not None:
                on_row(result)
            elif result.status not in _FINAL_STATUSES:
                # COPY switches the connection to another mode, in which it cannot be used.
                raise ConnectionLost("the statement transfers data with COPY")
            elif last is None or last.status != pq.ExecStatus.FATAL_ERROR:
                last = result
        if last is None:
            raise ConnectionLost("the server sent no result")
        return last


def _field(result: PGresult, field: pq.DiagnosticField) -> str:
    return _text(result.error_field(field))


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="backslashreplace")
