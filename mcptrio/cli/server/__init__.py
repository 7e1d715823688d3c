"""Shared by the commands that load plugins and serve them: which plugins, the configuration, how it is served."""
