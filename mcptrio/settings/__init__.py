"""Settings: classes of attrs, read from TOML tables and the environment."""
