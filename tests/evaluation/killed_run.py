"""A child process for `test_kill.py`: `killed_run.py DATA MODEL FOLDER METHOD`."""

import sys
from pathlib import Path

from ragweave.evaluation import EvalSettings, evaluate

data, model, folder, method = sys.argv[1:]
settings = EvalSettings(data=data, systems=(method,), models={"generator": model})
sys.exit(evaluate(settings, Path(folder), concurrency=8, quiet=True).exit_code)
