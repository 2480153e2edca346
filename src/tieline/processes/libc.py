"""Functions of the C library, called by the module under ctypes, which loads in a tenth of its time."""


def call_libc(name: str, *arguments: int | bytes) -> int | None:
    """What it returns; None where this system's library has no such function."""
    try:
        import _ctypes

        program = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] (None: this program)
        return _ctypes.call_function(_ctypes.dlsym(program, name), arguments)
    except (ImportError, AttributeError, TypeError):  # a Python whose module is another
        return call_by_ctypes(name, *arguments)
    except OSError:
        return None


def call_by_ctypes(name: str, *arguments: int | bytes) -> int | None:
    try:
        import ctypes

        return getattr(ctypes.CDLL(None), name)(*arguments)
    except (ImportError, AttributeError, OSError):
        return None
