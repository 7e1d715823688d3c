"""The parts of a server: tools, resources, prompts and completion, and the classes behind them."""
