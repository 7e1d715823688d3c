"""Prompts: analyse a table, and demonstrate the server.

``Demonstration`` is registered only if a database is writable, because its text names the tools that write.

Source: the name and argument of ``mcp-demo`` in the archived reference SQLite server (2025.4.25). Its text is
different, and analyse_table is added.
"""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from mcptrio import Context, prompt

__all__ = ["Analysis", "Demonstration"]


@frozen(eq=False)
class Analysis:
    """The prompt for reading."""

    @prompt(title="Analyse a table")
    async def analyse_table(
        self,
        ctx: Context,
        table: Annotated[str, "Name of the table."],
        database: Annotated[str, "Database of the table; optional if there is only one."] = "",
        question: Annotated[str, "Question to answer."] = "",
    ) -> str:
        """Let the model analyse a table and summarize its content."""
        where = f" of the database {database}" if database else ""
        aim = f"Answer this question: {question}" if question else "Find out what is remarkable about it."
        tool = ctx.tool_name
        return f"""Look into the table {table}{where}, with the tools of the SQLite server.

{aim}

1. {tool("describe_table")} shows its columns, keys and indexes. Look at the tables that its foreign keys name too.
2. Count the rows; for each column that matters, the distinct and missing values, and the smallest and largest one.
3. Ask with {tool("read_query")}, and let SQLite do the counting: use GROUP BY and LIMIT rather than reading every row.
   Where a query is slow, {tool("explain_query")} shows why.
4. Keep each finding with {tool("append_insight")}, with the numbers that bear it out.
5. Sum up what you found, and say what the data cannot tell.
"""


@frozen(eq=False)
class Demonstration:
    """The prompt for a writable database."""

    @prompt(name="mcp-demo", title="Demonstration")
    async def demonstrate(self, ctx: Context, topic: Annotated[str, "Topic of the invented data."]) -> str:
        """Let the model invent a small database about a topic and analyse it with the user."""
        tool = ctx.tool_name
        return f"""Show me what the SQLite server can do, with made-up data about: {topic}

1. Tell a short story about {topic} that raises a question which data could answer, with a person who has to decide.
2. Use {tool("list_databases")} and {tool("list_tables")} to find a database that may be written and names that are
   free; change nothing that is there. Then make two or three tables that belong to the story with
   {tool("create_table")}, and fill them with {tool("write_query")}: some dozen rows, in which there is something to be
   found. Put values into params.
3. Let me choose between three questions about the data. Answer each with {tool("read_query")}, show me the SQL and
   explain the result in a sentence.
4. After each answer, keep what we learned with {tool("append_insight")}, and tell me that it is in the resource
   memo://insights.
5. When I have had enough, sum up the memo for the person in the story. Offer to drop nothing; the tables are mine.
"""
