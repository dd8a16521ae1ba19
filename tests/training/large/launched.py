"""What `accelerate launch -m ragweave` runs, for tests of several processes."""

from ragweave.cli import run

if __name__ == "__main__":
    run()
