"""Runs sessions and requests: their tasks, deadlines and progress, and questions to the client."""
