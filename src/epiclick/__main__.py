"""`python -m epiclick`: the command line."""

from epiclick.cli.main import run

if __name__ == "__main__":
    run()
