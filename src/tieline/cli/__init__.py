"""The command line. `main` looks at the arguments first and imports what they need then, not before."""

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from .request import parse

        request = parse(arguments[1:])
        if request is not None:  # the common form needs no parser library: half of the start-up time
            from .errors import reported
            from .run import carry_out

            sys.exit(reported(lambda: carry_out(request)))
    from .app import start

    sys.exit(start(arguments))
