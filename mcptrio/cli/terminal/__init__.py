"""The terminal of a command: its output, the line editor, and the dialogs for a server's questions."""
