"""What code in a kernel can call, and how cells behave there.

A real module, loaded into the kernel by its path: the kernel's Python may be the project's own and
need not have harnessctl. So: standard library only, and nothing of harnessctl is imported.

The host runs two cells in silence before the first: one loads this file and calls :func:`install`,
one calls :func:`limit_output`.

Rules of a cell: ``final(value)`` ends the run with that answer; ``sys.exit(0)``, ``exit`` and
``quit`` end the cell, never the kernel; ``!command`` and ``%%bash`` run without a terminal and say
a status other than 0.
"""

from __future__ import annotations

import builtins
import codecs
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any, NoReturn

#: Mime type of the message that carries the text given to ``final()``.
FINAL_MIME = "application/vnd.harnessctl.final+json"
#: Mime type of the message that says how much of a stream was not sent.
SKIPPED_MIME = "application/vnd.harnessctl.skipped+json"
#: Mime type of the message that says what a cell changed among the variables.
VARIABLES_MIME = "application/vnd.harnessctl.variables+json"
#: Variables that are told by name; the rest is counted.
MOST_VARIABLES = 400
#: Characters of a name or a type that are told.
NAME_SHOWN = 80
#: Characters of one stream that a cell may send at each end.
EACH = 32 * 1024 * 1024
#: Characters of a stream in one message.
PIECE = 1 << 18
#: Characters of one shown value at each end.
SHOWN = 500_000
#: Class name of the exception that ends the cell then.
FINAL_NAME = "Final"
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
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        while data := os.read(process.stdout.fileno(), CHUNK):
            sys.stdout.write(decoder.decode(data))
        code = process.wait()
    except BaseException:
        end_command(process)
        raise
    finally:
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
            self.original_showtraceback(*args, **options)


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


class Harness:
    """The pinned entries, for code: ``harness.list()``, ``harness.search("words")``, ``harness.show(id)``."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _entries(self) -> list[dict[str, Any]]:
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as file:
            entries: list[dict[str, Any]] = json.load(file)
        return entries

    def list(self) -> builtins.list[str]:
        """Ids and descriptions of every entry."""
        return [f"{entry['id']}: {entry['description']}" for entry in self._entries()]

    def search(self, words: str) -> builtins.list[str]:
        """Ids and descriptions of entries that hold any of ``words``, most of them first."""
        wanted = words.lower().split()
        found = []
        for entry in self._entries():
            text = " ".join([entry["id"], entry["description"], *entry["files"].values()]).lower()
            score = sum(word in text for word in wanted)
            if score:
                found.append((-score, f"{entry['id']}: {entry['description']}"))
        return [line for _, line in sorted(found)]

    def show(self, id: str) -> str:  # noqa: A002 - the word the prompt uses
        """The whole text of one entry, all its files.

        :raises KeyError: no such entry.
        """
        entry = next((e for e in self._entries() if e["id"] == id), None)
        if entry is None:
            raise KeyError(f"no entry {id!r}; harness.list() names them all")
        files = entry["files"]
        if len(files) == 1:
            return str(next(iter(files.values())))
        return "\n".join(f"==> {path} <==\n{text}" for path, text in files.items())

    def __repr__(self) -> str:
        return f"<harness: {len(self._entries())} entries; list(), search(words), show(id)>"


class Limited:
    """One of the kernel's output streams, which lets a cell's first and last ``EACH`` characters through.

    The kernel sends faster than anyone can read, and what waits in between would fill the owner's
    memory. The last characters are sent when the cell has ended.
    """

    def __init__(self, name: str, stream: Any) -> None:
        self.name = name
        self.stream = stream
        self.original_write = stream.write
        self.unsent = 0
        self.lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """A new cell."""
        self.room = EACH
        self.tail: collections.deque[str] = collections.deque()
        self.waiting = self.skipped = 0

    def write(self, text: str) -> int:
        """In place of the stream's own ``write``."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if len(text) > self.room:
            with self.lock:
                self.keep(text)
        else:
            self.room -= len(text)
            self.through(text)
        return len(text)

    def through(self, text: str) -> None:
        """Hand on in pieces: one message of everything would be in memory several times over."""
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            self.original_write(piece)
            self.unsent += len(piece)
            if self.unsent >= PIECE:
                self.stream.flush()
                self.unsent = 0

    def keep(self, text: str) -> None:
        """Text beyond the first ``EACH`` characters."""
        if self.room:
            self.through(text[: self.room])
            text, self.room = text[self.room :], 0
        if len(text) > EACH:
            self.skipped += len(text[:-EACH].encode("utf-8", "replace"))
            text = text[-EACH:]
        self.tail.append(text)
        self.waiting += len(text)
        while self.waiting - len(self.tail[0]) >= EACH:
            lost = self.tail.popleft()
            self.waiting -= len(lost)
            self.skipped += len(lost.encode("utf-8", "replace"))

    def end(self) -> None:
        """The cell has ended: say how much was skipped, send the rest."""
        from IPython.display import publish_display_data

        with self.lock:
            tail, skipped = "".join(self.tail), self.skipped
            self.start()
        if skipped:
            said = {"stream": self.name, "bytes": skipped}
            publish_display_data({SKIPPED_MIME: said})  # type: ignore[no-untyped-call]
        if tail:
            self.through(tail)


def limit_output(ip: Any) -> None:
    """Bound what a cell prints and what it shows. Not in the cell that calls :func:`install`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        limited = Limited(name, stream)
        stream.write = limited.write
        ip.events.register("post_execute", limited.end)
    form = ip.display_formatter.format

    def bounded(*args: Any, **options: Any) -> Any:
        data, metadata = form(*args, **options)
        return {mime: shortened(value) for mime, value in data.items()}, metadata

    ip.display_formatter.format = bounded


def shortened(value: Any) -> Any:
    """Text of reasonable length; anything else as it is."""
    if not isinstance(value, str) or len(value) <= 2 * SHOWN:
        return value
    left_out = len(value) - 2 * SHOWN
    return f"{value[:SHOWN]}\n[... {left_out:,} characters left out ...]\n{value[-SHOWN:]}"


class Variables:
    """Tells after each cell which names were set, changed type or size, or are gone.

    That is what a model is told when the kernel is lost. No code of the user's objects is run for it:
    sizes come from built-in containers, and from the shape that arrays and tables keep ready.
    """

    def __init__(self, ip: Any) -> None:
        self.names = ip.user_ns
        self.hidden = ip.user_ns_hidden
        self.told: dict[str, list[str]] = {}
        self.more = 0

    def tell(self) -> None:
        """After a cell: send what changed, nothing when nothing did."""
        from IPython.display import publish_display_data

        now, more = self.now()
        change: dict[str, Any] = {}
        changed = {name: value for name, value in now.items() if self.told.get(name) != value}
        gone = [name for name in self.told if name not in now]
        if changed or gone or more != self.more:
            change = {"set": changed, "gone": gone, "more": more}
            self.told, self.more = now, more
            publish_display_data({VARIABLES_MIME: change})  # type: ignore[no-untyped-call]

    def now(self) -> tuple[dict[str, list[str]], int]:
        """Names with type and size, and how many there are beyond the first :data:`MOST_VARIABLES`."""
        found: dict[str, list[str]] = {}
        more = 0
        for name, value in list(self.names.items()):
            if not isinstance(name, str) or name.startswith("_") or name in self.hidden:
                continue
            if len(found) == MOST_VARIABLES:
                more += 1
            else:
                shown = name.encode("utf-8", "backslashreplace").decode()[:NAME_SHOWN]
                found[shown] = [type(value).__name__[:NAME_SHOWN], size_of(value)]
        return found, more


def size_of(value: Any) -> str:
    """A size in words, "" where none is to be had without running somebody's code."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return f"{len(value):,} {'characters' if kind is str else 'bytes'}"
    if kind in (list, tuple, dict, set, frozenset, collections.deque):
        return f"{len(value):,} items"
    if kind.__module__.partition(".")[0] in ("numpy", "pandas", "torch", "polars", "scipy", "xarray"):
        with contextlib.suppress(Exception):
            return "×".join(str(int(n)) for n in value.shape)[:NAME_SHOWN]
    return ""


def keep_messages_valid(session: Any) -> None:
    r"""A lone surrogate in printed text must not lose the message: it is sent as ``\ud800``."""
    pack = session.pack

    def packed(content: Any) -> bytes:
        try:
            data: bytes = pack(content)
        except UnicodeEncodeError:
            data = pack(_escaped(content))
        return data

    session.pack = packed


def _escaped(content: Any) -> Any:
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(content, dict):
        return {_escaped(key): _escaped(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_escaped(item) for item in content]
    return content


def wait_for_reader(ip: Any) -> None:
    """Let output wait in this process until it is read, and not in the reader's memory.

    A publishing socket would drop what a slow reader has no room for.
    """
    import zmq

    thread = ip.kernel.iopub_socket.io_thread
    thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))


def wake_for_signals(ip: Any) -> None:
    """Let an interrupt reach a cell that awaits.

    ipykernel's handler asks the loop to cancel the cell, and tornado does so without waking it: the
    loop sleeps on until its next timer. A handler of asyncio's own, for any signal, makes every
    signal wake it; this one is for a signal that nobody sends to a kernel.
    """
    loop = getattr(getattr(ip.kernel, "io_loop", None), "asyncio_loop", None)
    if loop is not None:
        loop.add_signal_handler(signal.SIGWINCH, int)


def no_colours() -> None:
    """Undo what IPython tells its children: that somebody looks at a colour terminal."""
    for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        os.environ.pop(name, None)
    os.environ["TERM"] = "dumb"


def install(ip: Any, entries: str = "") -> None:
    """Put the names into the namespace and the rules into the shell ``ip``.

    :param entries: JSON file with the pinned entries.
    """
    shell = Shell(ip)
    # Builtins, so that ``%reset`` and a module that a cell imports both see them.
    builtins.final = final  # type: ignore[attr-defined]
    builtins.harness = Harness(entries)  # type: ignore[attr-defined]
    # What models use without importing it; hidden, so that ``%who`` lists the cells' own names only.
    common = {"os": os, "re": re, "json": json, "subprocess": subprocess, "Path": Path}
    ip.user_ns.update(common)
    ip.user_ns_hidden.update(common)
    # IPython hides the builtins of these names; what it puts in their place ends the kernel.
    for name in ("exit", "quit"):
        ip.user_ns[name] = ip.user_ns_hidden[name] = make_exit()
    ip.ask_exit = leave_cell
    ip.system = shell.system
    ip.getoutput = shell.getoutput
    for magic in ("bash", "sh"):
        ip.register_magic_function(shell.cell_script, "cell", magic)
    ip.set_custom_exc((Final,), shell.show_nothing)
    ip.showtraceback = shell.showtraceback
    ip.events.register("post_execute", Variables(ip).tell)
    warnings.filterwarnings("ignore", message="To exit: use")
    keep_messages_valid(ip.kernel.session)
    wait_for_reader(ip)
    wake_for_signals(ip)
    # IPython keeps a copy of everything printed, for notebooks; and puts ``write`` back after this cell.
    ip._tee = lambda **_: contextlib.nullcontext()
    no_colours()
