"""How cells act: ``final``, ``exit``, ``!command`` and ``%%bash``."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, NoReturn

from .interrupts import held_back
from .signs import FINAL_MIME

#: Bytes in one read from a command.
CHUNK = 65_536
#: Seconds between the signals that end a command.
PATIENCE_S = 2.0


class Final(BaseException):
    """Ends the cell; no ``except Exception`` stops it."""


def final(value: Any) -> NoReturn:
    """End the run: ``value`` is the answer. Text stays as it is, everything else as ``str()`` shows it."""
    from IPython.display import publish_display_data

    text = value if isinstance(value, str) else str(value)
    publish_display_data({FINAL_MIME: {"text": text}})  # type: ignore[no-untyped-call]
    raise Final


def run_command(argv: list[str]) -> int:
    """Run a command without a terminal, its output printed as it comes; its status.

    It stays in the kernel's process group, so that an interrupt reaches it. Status as a shell says
    it: 128 + n for a command that signal n ended.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    process = None
    try:
        with held_back():  # else one that comes meanwhile leaves a process that nobody knows
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), CHUNK):
            sys.stdout.write(decoder.decode(data))
        code = process.wait()
    except BaseException:
        if process is not None:
            end_command(process)
        raise
    finally:
        if process is not None and process.stdout is not None:
            process.stdout.close()
        sys.stdout.write(decoder.decode(b"", True))
    return code if code >= 0 else 128 - code


def end_command(process: subprocess.Popen[bytes]) -> None:
    """Interrupt, then terminate, then kill."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue
        return


def say_status(status: int) -> None:
    """Show a status other than 0: without it a failed command looks like a silent one."""
    if status:
        sys.stdout.flush()
        print(f"[exit status {status}]", file=sys.stderr)


class Shell:
    """The kernel's shell, taught the rules above."""

    def __init__(self, ip: Any) -> None:
        self.ip = ip
        self.script = ip.find_cell_magic("bash")
        self.original_showtraceback = ip.showtraceback
        self.bash = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"

    def system(self, command: str) -> None:
        """``!command``."""
        status = run_command([self.bash, "-c", self.ip.var_expand(command, depth=1)])
        self.ip.user_ns["_exit_code"] = status
        say_status(status)

    def cell_script(self, line: str, cell: str) -> Any:
        """``%%bash`` and ``%%sh``. With options the call goes to IPython's own magic."""
        if line.strip():
            return self.script(line, cell)
        with tempfile.NamedTemporaryFile("w", suffix=".sh", errors="surrogateescape") as file:
            file.write(cell)
            file.flush()
            status = run_command([self.bash, file.name])
        self.ip.user_ns["_exit_code"] = status
        if status:
            raise CommandError(f"exit status {status}")
        return None

    def getoutput(self, command: str, split: bool = True, depth: int = 0) -> Any:
        """``lines = !command``."""
        from IPython.utils.text import LSString, SList

        done = subprocess.run(
            [self.bash, "-c", self.ip.var_expand(command, depth=depth + 1)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        self.ip.user_ns["_exit_code"] = status
        say_status(status)
        text = done.stdout.decode("utf-8", "replace")
        return SList(text.splitlines()) if split else LSString(text)

    def show_nothing(self, *_: Any, **__: Any) -> None:
        """For exceptions that end a cell by wish."""

    def showtraceback(self, *args: Any, **options: Any) -> None:
        """Nothing for ``sys.exit``, one line for a failed command, else what IPython shows."""
        kind, value, _ = sys.exc_info()
        if kind is SystemExit:
            self.ip._last_traceback = None
        elif kind is CommandError:
            # The frames inside this module tell nobody anything.
            self.ip._showtraceback(kind, value, [f"{kind.__name__}: {value}"])
        else:
            forget_inner_frames(value)
            self.original_showtraceback(*args, **options)


def forget_inner_frames(error: BaseException | None) -> None:
    """Cut the traceback where the cell's own code called into this package.

    What is below costs a reader forty lines, and the cell can change none of it.
    """
    trace = error.__traceback__ if error is not None else None
    here = os.path.dirname(__file__)
    while trace is not None and trace.tb_next is not None:
        if os.path.dirname(trace.tb_next.tb_frame.f_code.co_filename) == here:
            trace.tb_next = None
        trace = trace.tb_next


class CommandError(Exception):
    """A ``%%bash`` cell ended with a status other than 0."""


def leave_cell(code: object = None) -> NoReturn:
    """``exit`` and ``quit``: end the cell."""
    raise SystemExit(code)


def make_exit() -> Any:
    """``exit`` that also works without brackets: IPython calls such objects by itself.

    Ending the cell from ``__repr__``, as Python's own ``exit`` prints its hint, would leave IPython's
    display hook in the middle of its work and make later cells fail.
    """
    from IPython.core.autocall import IPyAutocall

    class Exit(IPyAutocall):
        rewrite = False

        def __call__(self, code: object = None) -> NoReturn:
            leave_cell(code)

    return Exit()  # type: ignore[no-untyped-call]
