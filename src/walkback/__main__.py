"""`python -m walkback` is the command line."""

from walkback.cli.entry import run

if __name__ == "__main__":
    run()
