"""The signals that end a process of ours cleanly, from its first line on.

SIGHUP is the terminal that closes, and is a reason to stop as any other, as in Kafka. It comes
twice then, from the kernel and from the shell: the second one says nothing new, and must not cut
short the stop. Where it is ignored from the beginning, as by `nohup`, it stays ignored.
"""

import signal

INTERRUPTED = 130
"""The exit code of a command after Ctrl-C, as shells know it."""

_ALWAYS = (signal.SIGINT, signal.SIGTERM)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that this process is to heed."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return _ALWAYS
    return (*_ALWAYS, signal.SIGHUP)


def let_ctrl_c_raise() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from now on, for what has something to put in order."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
