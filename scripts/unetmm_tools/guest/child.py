# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that end with the program that started them."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class _Forking:
    """The process that forks, as its child has to know it."""

    pid = os.getpid()

    @classmethod
    def note(cls):
        """In the parent, before each fork."""
        cls.pid = os.getpid()


os.register_at_fork(before=_Forking.note)


def die_with_parent():
    """In the child: a killed test must not leave guests behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # A parent that was killed before the call sends no signal.
    if os.getppid() != _Forking.pid:
        os._exit(1)             # pylint: disable=protected-access
