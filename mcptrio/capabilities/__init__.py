"""What a server can do: tools, resources, prompts, completion, and what they are made of."""
