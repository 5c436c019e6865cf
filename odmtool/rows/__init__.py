"""How rows are stored and passed over: tiles, blocks, parts, workers, and where tasks run."""
