"""`python -m tieline`: the command line, where the program `tieline` is not on PATH."""

from .cli import main

main()
