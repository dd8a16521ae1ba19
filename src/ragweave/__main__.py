"""`python -m ragweave`, which `accelerate launch -m ragweave train …` starts on every GPU."""

from ragweave.cli import run

if __name__ == "__main__":
    run()
