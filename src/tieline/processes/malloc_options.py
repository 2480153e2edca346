"""Makes the C library's allocator give back memory that a process needed for a moment only.

A hub that reads long histories needs much for moments. By default glibc keeps free memory per thread, and takes ever
larger blocks from a heap that cannot shrink below what is still in use; then most of it stays with the process.
"""

from .libc import call_libc

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
OPTIONS = {
    _ARENA_MAX: 1,  # one heap for all threads
    _MMAP_THRESHOLD: 128 * 1024,  # from this size on a block is mapped by itself, and gone when it is freed
    _TRIM_THRESHOLD: 256 * 1024,  # so much may stay free at the end of the heap
}


def give_memory_back() -> bool:
    """For the whole process, before it has threads. False where the library is not glibc: nothing is changed then."""
    if call_libc("gnu_get_libc_version") is None:
        return False
    return all(call_libc("mallopt", option, value) == 1 for option, value in OPTIONS.items())
