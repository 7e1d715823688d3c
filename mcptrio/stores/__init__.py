"""Storage of sessions, events, bus messages and tokens: in memory, in files, in SQLite, in the system keyring."""
