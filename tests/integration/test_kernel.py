# ruff: noqa: ASYNC240 - a test may wait for the disk
"""A real IPython kernel: rules of cells, interrupts, death, floods of output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pydoc
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from harnessctl.domain.cell import CellRun, CellStatus
from harnessctl.layers.l1_context.result_text import result_text
from harnessctl.layers.l2_execution.environment import kernel_environment
from harnessctl.layers.l2_execution.forks import available
from harnessctl.layers.l2_execution.kernel import Kernel, KernelSpec
from harnessctl.layers.l2_execution.process import Forking, GuardedProcess, KernelStartError, Launch
from harnessctl.layers.l2_execution.registration import Registration
from harnessctl.rlm.door import Door
from harnessctl.rlm.kernels import PACKAGES, kernel_starter
from tests.fakes.forking import sleeping

pytestmark = [pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]

#: What a shell had when the session began; the planted key must not reach any kernel.
VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8", "OPENAI_API_KEY": "sk-planted"}


async def start(folder: Path, python: str = sys.executable, launch: Launch = GuardedProcess.start) -> Kernel:
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environment = kernel_environment(VARIABLES, "SESSION", ipython_folder=folder / "ipython")
    entries = folder / "entries.json"
    entries.write_text(
        '[{"id": "memory/build", "description": "how to build", "files": {"build.md": "Use make."},'
        ' "module": null, "flags": []}]'
    )
    door = Door()
    try:
        start_one = kernel_starter(python, work, folder, environment, entries, door, launch=launch)
        kernel = await start_one()
    finally:
        await door.close()  # nothing here asks the host
    assert isinstance(kernel, Kernel)
    return kernel


KINDS = ["guarded", pytest.param("forked", marks=pytest.mark.skipif(not available(), reason="Linux only"))]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def launch(request: pytest.FixtureRequest) -> AsyncIterator[Launch]:
    """Each way to get a kernel's process: what a kernel does must not depend on it."""
    if request.param == "guarded":
        yield GuardedProcess.start
        return
    environment = kernel_environment(VARIABLES, "SESSION")
    forking = Forking(sys.executable, environment, PACKAGES)
    yield forking.launch
    assert forking.forked, "no kernel was forked"
    await forking.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory, launch: Launch) -> AsyncIterator[Kernel]:
    """One kernel for every test that leaves it alive."""
    kernel = await start(tmp_path_factory.mktemp("kernel"), launch=launch)
    yield kernel
    await kernel.close()


@pytest_asyncio.fixture(loop_scope="module")
async def own(tmp_path: Path, launch: Launch) -> AsyncIterator[Kernel]:
    """A kernel that the test may kill."""
    kernel = await start(tmp_path, launch=launch)
    yield kernel
    await kernel.close()


async def run(kernel: Kernel, code: str, limit_s: float = 30) -> CellRun:
    return await kernel.execute(code, limit_s=limit_s)


def text(done: CellRun, stream: str = "stdout") -> str:
    return "".join(o.text for o in done.outputs if o.stream == stream)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False


async def test_values_stay_between_cells(shared: Kernel) -> None:
    await run(shared, "x = 20")
    done = await run(shared, "print('out'); import sys; print('err', file=sys.stderr); x + 1")
    assert done.status is CellStatus.OK
    assert (text(done), text(done, "stderr"), text(done, "result")) == ("out\n", "err\n", "21\n")


async def test_common_modules_are_there_and_hidden(shared: Kernel) -> None:
    """Small models forget the imports; what is listed is what the cells made."""
    done = await run(
        shared, "mine = 1\nprint(os.sep, re.escape('a'), json.dumps(1), Path('x'), subprocess.PIPE)\n%who"
    )
    assert text(done).split()[:5] == ["/", "a", "1", "x", "-1"]
    names = text(done).split()[5:]
    assert "mine" in names
    assert not {"os", "re", "json", "subprocess", "Path"} & set(names)


async def test_input_fails_at_once_and_the_next_cell_runs(shared: Kernel) -> None:
    """kernel-01."""
    begun = time.monotonic()
    done = await run(shared, 'input("go")')
    assert time.monotonic() - begun < 20
    assert done.status is CellStatus.ERROR
    assert "Nobody can answer input()" in result_text(1, done, 4000)
    assert text(await run(shared, "print('next')")) == "next\n"


async def test_a_command_that_reads_gets_an_empty_input(shared: Kernel) -> None:
    begun = time.monotonic()
    assert (await run(shared, "!cat; read x; echo done")).status is CellStatus.OK
    assert (await run(shared, "%%bash\ngit hash-object --stdin")).status is CellStatus.OK
    assert time.monotonic() - begun < 25


async def test_asyncio_run_fails_with_a_hint_and_await_works(shared: Kernel) -> None:
    """kernel-02."""
    await run(shared, "import asyncio\nasync def f(): return 7")
    done = await run(shared, "asyncio.run(f())")
    assert done.status is CellStatus.ERROR
    assert "write `await f()`" in result_text(1, done, 4000)
    assert text(await run(shared, "await f()"), "result") == "7\n"


@pytest.mark.parametrize(
    ("code", "status", "shown"),
    [
        ("import sys; sys.exit(0)", CellStatus.OK, ""),
        ("sys.exit()", CellStatus.OK, ""),
        ("sys.exit(1)", CellStatus.ERROR, "SystemExit: 1"),
        ("sys.exit('no such file')", CellStatus.ERROR, "SystemExit: no such file"),
        ("exit", CellStatus.OK, ""),
        ("exit()", CellStatus.OK, ""),
        ("quit(2)", CellStatus.ERROR, "SystemExit: 2"),
        ("!false", CellStatus.OK, "[exit status 1]"),
        ("!kill -9 $$", CellStatus.OK, "[exit status 137]"),
        ("lines = !echo a; false", CellStatus.OK, "[exit status 1]"),
        ("%%bash\nfalse", CellStatus.ERROR, "exit status 1"),
        ("%%bash\necho fine", CellStatus.OK, "fine"),
        ("%%sh\nexit 3", CellStatus.ERROR, "exit status 3"),
    ],
)
async def test_how_cells_end(shared: Kernel, code: str, status: CellStatus, shown: str) -> None:
    """kernel-07: one rule for each; the kernel lives on and its values stay."""
    await run(shared, "import sys; kept = 1")
    done = await run(shared, code)
    assert done.status is status
    assert shown in result_text(1, done, 4000)
    assert "Traceback" not in result_text(1, done, 4000)
    assert text(await run(shared, "print(kept)")) == "1\n"


async def test_exit_after_a_reset_does_not_end_the_kernel(shared: Kernel) -> None:
    await run(shared, "%reset -f")
    assert (await run(shared, "exit")).status is CellStatus.OK
    await asyncio.sleep(0.3)
    assert text(await run(shared, "print(1)")) == "1\n"


async def test_final_gives_the_value_and_ends_the_cell(shared: Kernel) -> None:
    """loop-10."""
    done = await run(shared, "name = [1, 'a']\nfinal(name)\nprint('never')")
    assert (done.status, done.final, done.outputs) == (CellStatus.FINAL, "[1, 'a']", ())
    assert (await run(shared, "final('text\\n')")).final == "text\n"


async def test_final_with_a_missing_name_is_an_error_and_no_answer(shared: Kernel) -> None:
    """loop-10."""
    done = await run(shared, "final(no_such_name)")
    assert (done.status, done.final) == (CellStatus.ERROR, None)
    assert "NameError" in result_text(1, done, 4000)


async def test_a_cell_that_fails_after_a_swallowed_final_gave_no_answer(shared: Kernel) -> None:
    done = await run(shared, "try:\n    final(1)\nexcept BaseException:\n    1 / 0")
    assert (done.status, done.final) == (CellStatus.ERROR, None)


async def test_entries_can_be_read_in_a_cell(shared: Kernel) -> None:
    done = await run(shared, "print(harness.search('BUILD make')); print(harness.show('memory/build'))")
    assert text(done) == "['memory/build: how to build']\nUse make.\n"
    assert "no entry 'memory/x'" in result_text(1, await run(shared, "harness.show('memory/x')"), 4000)


async def test_no_key_enters_the_kernel_and_the_session_is_marked(shared: Kernel) -> None:
    done = await run(
        shared, "import os; print('sk-planted' in str(dict(os.environ)), os.environ['HARNESSCTL_KERNEL'])"
    )
    assert text(done) == "False SESSION\n"
    environment = Path(f"/proc/{shared.pid}/environ")
    if environment.exists():
        assert b"sk-planted" not in environment.read_bytes()


@pytest.mark.parametrize(
    "code",
    [
        "open({mark!r}, 'w'); import time; time.sleep(60)",
        "open({mark!r}, 'w')\nwhile True: pass",
        "open({mark!r}, 'w'); import asyncio; await asyncio.sleep(60)",
        "!sleep 60",
        "%%bash\nsleep 60",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "!trap '' INT; sleep 60",
    ],
)
async def test_an_interrupt_ends_the_cell_and_the_processes_it_started(
    shared: Kernel, tmp_path: Path, code: str
) -> None:
    mark = tmp_path / "begun"
    running = asyncio.create_task(run(shared, code.format(mark=str(mark))))
    assert await eventually(lambda: mark.exists() or bool(sleeping(shared.pid)))
    begun = time.monotonic()
    shared.interrupt()
    done = await running
    assert done.status is CellStatus.INTERRUPTED
    assert time.monotonic() - begun < 20, "it has 30 seconds, and sleeps for 60"
    assert await eventually(lambda: not psutil.Process(shared.pid).children(recursive=True))
    assert text(await run(shared, "print('alive')")) == "alive\n"


@pytest.mark.parametrize("after_s", [0, 0.001, 0.002, 0.004])
async def test_an_interrupt_as_a_cell_begins_ends_it_too(shared: Kernel, after_s: float) -> None:
    """A kernel between two cells ignores it, and the cell would go on as if nobody had asked."""
    for code in ("import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)"):
        running = asyncio.create_task(run(shared, code))
        await asyncio.sleep(after_s)
        shared.interrupt()
        assert (await running).status is CellStatus.INTERRUPTED
        assert text(await run(shared, "print('alive')")) == "alive\n"


@pytest.mark.parametrize("around", ["init_metadata", "finish_metadata"])
async def test_an_interrupt_beside_the_code_of_a_cell_loses_no_kernel(own: Kernel, around: str) -> None:
    """It comes when the request is read, or when the reply is made: the kernel would answer no more."""
    code = (
        "import signal\n"
        f"def told(*what, then=get_ipython().kernel.{around}):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    return then(*what)\n"
        f"get_ipython().kernel.{around} = told"
    )
    assert (await run(own, code)).status is CellStatus.OK
    for _ in range(2):
        done = await run(own, "print('alive')", limit_s=20)
        if around == "init_metadata":  # it is given to the code
            assert done.error is not None
            assert done.error.name == "KeyboardInterrupt"
        else:
            assert (done.status, text(done)) == (CellStatus.OK, "alive\n")


async def test_a_cell_that_runs_another_can_still_be_interrupted(shared: Kernel, tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    code = f"get_ipython().run_cell('1')\nopen({str(mark)!r}, 'w')\nimport time; time.sleep(60)"
    running = asyncio.create_task(run(shared, code))
    assert await eventually(mark.exists)
    await asyncio.sleep(0.1)
    shared.interrupt()
    assert (await running).status is CellStatus.INTERRUPTED


async def test_a_cell_past_its_limit_is_interrupted(shared: Kernel) -> None:
    done = await run(shared, "import time\nprint('begun', flush=True)\ntime.sleep(60)", limit_s=3)
    assert (done.status, done.kernel_lost, text(done)) == (CellStatus.TIMEOUT, False, "begun\n")


async def test_a_cell_that_ignores_interrupts_loses_its_kernel(
    own: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harnessctl.layers.l2_execution.kernel.PATIENCE_S", 0.5)
    code = (
        "import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    )
    done = await run(own, code, limit_s=0.5)
    assert (done.status, done.kernel_lost, done.signal) == (CellStatus.TIMEOUT, True, "SIGKILL")
    assert "all variables are gone" in result_text(1, done, 4000)


@pytest.mark.parametrize(
    ("code", "signal_name", "exit_code"),
    [
        ("import time; print('x', flush=True); time.sleep(60)", "SIGKILL", None),
        ("import os; os._exit(3)", None, 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV", None),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV", None),
    ],
    ids=["kill -9", "os._exit", "signal", "crash"],
)
async def test_death_is_seen_within_seconds(
    own: Kernel, code: str, signal_name: str | None, exit_code: int | None
) -> None:
    """kernel-03."""
    if "sleep" in code:
        asyncio.get_running_loop().call_later(0.3, os.kill, own.pid, signal.SIGKILL)
    begun = time.monotonic()
    done = await run(own, code, limit_s=50)
    assert time.monotonic() - begun < 20
    assert (done.status, done.signal, done.exit_code) == (CellStatus.DIED, signal_name, exit_code)
    assert done.kernel_lost
    assert not own.alive
    assert (await run(own, "1", limit_s=5)).status is CellStatus.DIED


#: Slows the words with which a kernel's control thread answers the request to end, and notes whether
#: the publishing thread was ended before them. In a function, since the names of cells are gone by then.
SLOW_WORDS = """
def slow(kernel, note):
    import time
    publishing, say = kernel.iopub_socket.io_thread, kernel._publish_status_and_flush
    ask = publishing.io_loop.add_callback

    def slowly(*words):
        if words[:2] == ("idle", "control"):
            time.sleep(0.5)
        say(*words)

    def asked(callback, *rest, **more):
        if getattr(callback, "__name__", "") == "stop":
            note.write_text("before" if kernel.control_thread.is_alive() else "after")
        return ask(callback, *rest, **more)

    kernel._publish_status_and_flush, publishing.io_loop.add_callback = slowly, asked

slow(get_ipython().kernel, Path({note!r}))
"""


async def test_a_closed_kernel_says_its_last_words_before_it_ends(
    own: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the threads of a stock ipykernel wait for each other, one end in ten, until it is killed."""
    monkeypatch.setattr("harnessctl.layers.l2_execution.kernel.LEAVE_S", 30.0)  # a busy machine is no hang
    note = tmp_path / "note"
    done = await run(own, SLOW_WORDS.format(note=str(note)))
    assert done.status is CellStatus.OK
    await own.close()
    assert own.death is not None
    assert (own.death.exit_code, own.death.signal_name) == (0, None)
    assert note.read_text() == "after"


async def test_waiting_for_the_reply_alone_never_sees_death(own: Kernel) -> None:
    """The guard's own test: without the watch over the process the cell would hang."""

    class Blind(Kernel):
        async def _ended(self, reply, seconds: float) -> bool:  # type: ignore[no-untyped-def]
            done, _ = await asyncio.wait({reply}, timeout=seconds)
            return bool(done)

    own.__class__ = Blind
    reply = asyncio.create_task(own.execute("import os; os._exit(3)", limit_s=60))
    done, _ = await asyncio.wait({reply}, timeout=2)
    assert not done
    own.__class__ = Kernel
    reply.cancel()
    await asyncio.gather(reply, return_exceptions=True)


async def test_everything_a_kernel_started_ends_with_it(own: Kernel, tmp_path: Path) -> None:
    code = (
        "import os, subprocess\n"
        "plain = subprocess.Popen(['sleep', '77']).pid\n"
        "apart = subprocess.Popen(['sleep', '77'], start_new_session=True).pid\n"
        "copy = os.fork()\n"
        "if copy == 0:\n    import time; time.sleep(77)\n    os._exit(0)\n"
        "print(plain, apart, copy)"
    )
    done = await run(own, code)
    pids = [int(p) for p in text(done).split()]
    assert len(pids) == 3, done
    known = Registration.read(tmp_path)
    assert known is not None
    assert len(known.alive()) == 2
    await own.close()
    assert all(gone(pid) for pid in [*pids, own.pid])
    assert not Path(known.folder).exists()
    assert Registration.read(tmp_path) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_when_its_keeper_is_killed_the_kernel_does_not_stay(tmp_path: Path, kind: str) -> None:
    forking = Forking(sys.executable, kernel_environment(VARIABLES, "SESSION"))
    launch = forking.launch if kind == "forked" else GuardedProcess.start
    own = await start(tmp_path, launch=launch)
    known = Registration.read(tmp_path)
    assert known is not None
    os.kill(known.guard, signal.SIGKILL)
    done = await run(own, "import time; time.sleep(60)", limit_s=50)
    assert done.status is CellStatus.DIED
    assert await eventually(lambda: gone(own.pid))
    await own.close()
    assert not Path(known.folder).exists()
    another = await start(tmp_path, launch=launch)
    assert text(await run(another, "print('another')")) == "another\n"
    await another.close()
    await forking.close()
    assert gone(another.pid)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.3])
async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path, kind: str, after_s: float) -> None:
    forking = Forking(sys.executable, kernel_environment(VARIABLES, "SESSION"))
    launch = forking.launch if kind == "forked" else GuardedProcess.start
    before = set(psutil.Process().children(recursive=True))
    starting = asyncio.create_task(start(tmp_path, launch=launch))
    await asyncio.sleep(after_s)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await starting).close()
    await forking.close()
    # Zombies count: a process that is not waited for stays in the table.
    assert await eventually(lambda: set(psutil.Process().children(recursive=True)) <= before)


@pytest.mark.skipif(not available(), reason="Linux only")
async def test_a_server_that_a_cell_has_stopped_keeps_nothing_alive(tmp_path: Path) -> None:
    """Its kernels, and what left their sessions, end all the same: a gate may be about to look."""
    forking = Forking(sys.executable, kernel_environment(VARIABLES, "SESSION"))
    one = await start(tmp_path / "one", launch=forking.launch)
    code = (
        "import os, signal, subprocess, time\n"
        "p = subprocess.Popen(['setsid', 'sleep', '600'])\nprint(p.pid, flush=True)\n"
        "os.kill(os.getppid(), signal.SIGSTOP)"
    )
    left = int(text(await run(one, code)))
    await asyncio.wait_for(one.close(), 60)
    assert await eventually(lambda: gone(one.pid) and gone(left))
    another = await start(tmp_path / "two", launch=forking.launch)
    assert text(await run(another, "print('goes on')")) == "goes on\n"
    stop = "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)"
    await run(another, stop)
    await asyncio.wait_for(forking.close(), 60)
    assert await eventually(lambda: gone(another.pid))
    await another.close()


async def test_what_cannot_be_forked_is_a_program_of_its_own(tmp_path: Path) -> None:
    """A library that starts a thread when it is imported makes every fork unsafe."""
    (tmp_path / "site").mkdir()
    code = "import sys, threading, time\nif any('forkserver' in a for a in sys.orig_argv):\n"
    code += "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    code += f"exec(open({pydoc.__file__!r}).read())\n"
    (tmp_path / "site" / "pydoc.py").write_text(code)
    environment = {**kernel_environment(VARIABLES, "SESSION"), "PYTHONPATH": str(tmp_path / "site")}
    forking = Forking(sys.executable, environment)
    own = await start(tmp_path / "s", launch=forking.launch)
    assert text(await run(own, "print('here')")) == "here\n"
    assert forking.forked == 0
    await own.close()
    await forking.close()


HOST = """
import asyncio, sys
sys.path.insert(0, {here!r})
from pathlib import Path
from tests.integration.test_kernel import start
async def main():
    kernel = await start(Path(sys.argv[1]))
    print(kernel.pid, flush=True)
    await kernel.execute({code!r}, limit_s=100)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(99)", "import re; re.match('(a+)+$', 'a' * 40 + 'b')"],
    ids=["sleep", "in C"],
)
async def test_kill_9_of_the_host_leaves_nothing(tmp_path: Path, code: str) -> None:
    """kernel-05; also while C code holds the interpreter, when no thread of the kernel could notice."""
    here = str(Path(__file__).parents[2])
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST.format(here=here, code=code), str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    pid = int(await host.stdout.readline())
    await asyncio.sleep(0.5)
    known = Registration.read(tmp_path)
    assert known is not None
    assert not gone(pid)
    host.kill()
    await host.wait()
    assert await eventually(lambda: gone(pid) and gone(known.guard))
    assert not Path(known.folder).exists()


async def test_a_gigabyte_of_output_is_bounded(shared: Kernel) -> None:
    """kernel-10: head and tail stay, the count is right, the kernel lives, memory stays small."""
    before = psutil.Process().memory_info().rss
    done = await run(shared, "!yes | head -c 1000000000", limit_s=120)
    (output,) = done.outputs
    assert done.status is CellStatus.OK
    assert output.bytes == 1_000_000_000
    assert output.cut > 999_000_000
    assert output.raw is not None
    raw = sum(len(chunk) for chunk in output.raw.chunks())
    output.raw.close()
    assert 64 * 2**20 <= raw < 64 * 2**20 + 100
    assert psutil.Process().memory_info().rss - before < 150e6
    assert "characters left out" in result_text(1, done, 4000)
    assert text(await run(shared, "print('alive')")) == "alive\n"


async def test_output_of_c_code_is_seen(shared: Kernel) -> None:
    """kernel-10."""
    code = "import os\nfor _ in range(1000): os.write(2, b'x' * 999 + b'\\n')"
    total, end = 0, time.monotonic() + 60
    while total < 1_000_000 and time.monotonic() < end:
        done = await run(shared, code)
        total += sum(o.bytes for o in done.outputs if o.stream == "stderr")
        for output in done.outputs:
            if output.raw is not None:
                output.raw.close()
        code = "import time; time.sleep(0.3)"  # what is read after a cell's end belongs to the next one
    assert total == 1_000_000


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("print('\\ud800 x')", "\\ud800 x\n"),
        ("!printf 'a\\377\\376b\\n'", "a\ufffd\ufffdb\n"),
        ("for i in range(10000): print(f'\\r{i}', end='')", "9999"),
        ("print('\\x1b[1mbold\\x1b[0m')", "bold\n"),
        ("!git --no-pager -c color.ui=auto --version | cut -c1-3", "git\n"),
    ],
)
async def test_odd_output(shared: Kernel, code: str, shown: str) -> None:
    done = await run(shared, code)
    assert text(done) == shown


async def test_odd_code(shared: Kernel) -> None:
    assert (await run(shared, "x = '\ud800'")).status is CellStatus.OK
    assert (await run(shared, "")).status is CellStatus.OK
    assert (await run(shared, "x = (")).status is CellStatus.ERROR


async def test_output_of_threads_belongs_to_the_next_cell(shared: Kernel, tmp_path: Path) -> None:
    over, printed = tmp_path / "over", tmp_path / "printed"
    code = (
        "import threading, time\ndef speak():\n"
        f"    while not os.path.exists({str(over)!r}): time.sleep(0.01)\n"
        f"    print('late', flush=True)\n    open({str(printed)!r}, 'w').close()\n"
        "t = threading.Thread(target=speak)\nt.start()"
    )
    assert (await run(shared, code)).outputs == ()
    over.touch()
    assert await eventually(printed.exists)
    assert text(await run(shared, "t.join()")) == "late\n"


async def test_output_arrives_while_the_cell_runs(shared: Kernel) -> None:
    seen: list[tuple[str, str]] = []

    def hear(stream: str, piece: str) -> None:
        if not seen:
            shared.interrupt()
        seen.append((stream, piece))

    done = await shared.execute(
        "import time\nprint('now', flush=True)\ntime.sleep(30)", limit_s=20, on_output=hear
    )
    assert done.status is CellStatus.INTERRUPTED
    assert seen[0] == ("stdout", "now\n")


async def test_a_python_that_cannot_start_a_kernel_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = tmp_path / "t"
    sockets.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'No module named ipykernel_launcher' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(KernelStartError, match="No module named ipykernel_launcher") as caught:
        await start(tmp_path / "s", str(script))
    assert caught.value.id == "kernel_start"
    with pytest.raises(KernelStartError):
        await start(tmp_path / "s", "/nowhere/python")
    assert not list(sockets.iterdir())


async def test_a_failing_setup_cell_is_a_start_error(tmp_path: Path) -> None:
    spec = KernelSpec(sys.executable, tmp_path, tmp_path, kernel_environment(VARIABLES, "S"), ("1 / 0",))
    with pytest.raises(KernelStartError, match="ZeroDivisionError"):
        await Kernel.start(spec)


async def test_a_working_folder_with_any_name(tmp_path: Path) -> None:
    kernel = await start(tmp_path / ("long " * 30 + "é"))
    try:
        assert text(await run(kernel, "import os; print(os.getcwd().endswith('work'))")) == "True\n"
    finally:
        await kernel.close()
