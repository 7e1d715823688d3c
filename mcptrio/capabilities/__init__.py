"""The capabilities of a server: tools, resources, prompts, completion, logging, subscriptions and tasks."""
