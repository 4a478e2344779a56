"""`python -m epiclick`: the command line, of the Python that is named."""

from epiclick.cli.main import run

if __name__ == "__main__":
    run()
