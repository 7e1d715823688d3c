"""Tasks: tool calls that outlive their request, their session and, if the tool can be resumed, their process.

    Tasks ── TaskRecord in a store (any process) ── TaskDocument: questions, answers, result
      └───── RunningTask (one process) ── Run: the handler

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28.
"""
