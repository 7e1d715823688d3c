"""The terminal of a command: what is printed, the line that is edited, and the questions that a server asks there."""
