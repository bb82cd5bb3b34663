"""`python -m shoal` is the command line."""

from shoal.cli.main import program

if __name__ == "__main__":
    program()
