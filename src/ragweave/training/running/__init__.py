"""How trainers run, whatever they train: arguments, checkpoints, faults, progress, processes."""
