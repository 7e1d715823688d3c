"""Prompts: look into a table, and see what the server can do.

Marked for mcptrio, registered by the plugin. The one rule: a prompt names only tools that are offered.

Source: ``mcp-demo`` with the argument topic, as in the archived reference SQLite server (2025.4.25); the words are our
own, and analyse_table is added.
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
        table: Annotated[str, "The table."],
        database: Annotated[str, "Its database; may be left out where there is only one."] = "",
        question: Annotated[str, "What you want to know."] = "",
    ) -> str:
        """Have the model look into a table and say what is in it."""
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
    """The prompt that needs a database that may be written."""

    @prompt(name="mcp-demo", title="Demonstration")
    async def demonstrate(self, ctx: Context, topic: Annotated[str, "What the made-up data are about."]) -> str:
        """Have the model make up a small database on a topic and analyse it with the user."""
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
