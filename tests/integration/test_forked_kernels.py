"""Kernels forked from one server, through a real kernel manager and client."""
# ruff: noqa: ASYNC110, ASYNC220, ASYNC221, ASYNC230 - a test may wait

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from harnessctl.config import KERNEL_MARK
from harnessctl.layers.l2_execution import forks
from harnessctl.layers.l2_execution.forks import ForkError, ForkServer, available
from harnessctl.layers.l2_execution.provisioner import ForkProvisioner, fork_manager
from tests.fakes.forking import (
    OPTIONS,
    environment,
    family,
    fork_server,
    gone,
    kernel,
    running,
    short_folder,
    sleeping,
)

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(not available(), reason="kernels are forked on Linux")]

#: A process that leaves its session and loses its parent, and so would outlive its kernel.
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print(os.wait()[1])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with fork_server() as one:
        yield one


async def test_answers_a_first_cell(server: ForkServer) -> None:
    async with kernel(server) as session:
        assert await session.run("6 * 7") == "42"
        assert await session.run("x = 1") == ""
        assert await session.run("x + 1") == "2"
        assert await session.run("1/0") == "ZeroDivisionError: division by zero"
        assert await session.run("%%bash\necho $((40 + 2))") == "42"
        assert await session.run("import asyncio; await asyncio.sleep(0, 'slept')") == "'slept'"


async def test_is_a_process_of_its_own(server: ForkServer) -> None:
    """Session, group, main module, random numbers and ids are not the server's or a sibling's."""
    look = (
        "import json, os, random, sys, tempfile, threading, uuid\n"
        "ip = get_ipython()\n"
        "print(json.dumps([ip.kernel.session.session, ip.kernel.ident, random.random(),"
        " next(tempfile._get_candidate_names()), str(uuid.uuid4()), os.getpid()]))"
    )
    async with kernel(server) as one, kernel(server) as two:
        first, second = json.loads(await one.run(look)), json.loads(await two.run(look))
        assert not set(map(str, first)) & set(map(str, second))
        assert await one.run("os.getpid() == os.getpgid(0) == os.getsid(0)") == "True"
        assert (
            await one.run("def f(): pass\nsys.modules['__main__'].f is f, f.__module__")
            == "(True, '__main__')"
        )
        assert await one.run("signal = __import__('signal'); signal.getsignal(15)") == "<Handlers.SIG_DFL: 0>"
        assert await one.run("threading.main_thread() is threading.current_thread()") == "True"
        assert await one.run("ip.displayhook.topic == ip.kernel._topic('execute_result')") == "True"
        assert await one.run("import importlib.util; importlib.util.find_spec('debugpy').name") == "'debugpy'"
        # The second keeps no pipe of the first.
        assert await becomes(lambda: psutil.Process(two.pid).num_fds(), psutil.Process(one.pid).num_fds())


async def test_has_the_environment_and_folder_it_is_given(tmp_path: Path) -> None:
    """And no others: what the server or we have in addition is nowhere to be seen."""
    ours, servers = tmp_path / "ours", tmp_path / "servers"
    for folder in (ours, servers):
        folder.mkdir()
    env = environment(tmp_path, MINE="1", TZ="Etc/GMT-5", PYTHONPATH=str(ours), TMPDIR=str(ours))
    (ours / "mine.py").write_text("here = True")
    # Loaded by the server in the place of a module that it loads for kernels.
    (servers / "stack_data.py").write_text("import tempfile\ntempfile.gettempdir()")
    os.environ["FAKE_API_KEY"] = "of-the-host"
    try:
        with fork_server(environment={"SERVERS": "1", "PYTHONPATH": str(servers)}, options=()) as server:
            async with kernel(server, env=env, cwd=tmp_path) as session:
                own = json.loads(await session.run("import json, os; print(json.dumps(dict(os.environ)))"))
                assert {k: own[k] for k in env if k != "TERM"} == env
                assert not {"FAKE_API_KEY", "SERVERS"} & set(own)
                assert (
                    await session.run("import subprocess\nprint(subprocess.getoutput('echo $MINE$SERVERS'))")
                    == "1"
                )
                assert await session.run("os.getcwd()") == repr(str(tmp_path))
                assert await session.run("import time; time.timezone") == "-18000"
                assert await session.run("import tempfile; tempfile.gettempdir()") == repr(str(ours))
                assert (
                    await session.run(f"import mine, sys; mine.here, {str(servers)!r} in sys.path")
                    == "(True, False)"
                )
                # The option that says so is not given here.
                assert await session.run("get_ipython().history_manager.enabled") == "False"
                shown = psutil.Process(session.pid).environ()
                assert shown[KERNEL_MARK] == "session-of-the-root"
                assert "FAKE_API_KEY" not in shown
    finally:
        del os.environ["FAKE_API_KEY"]


async def test_is_an_agent_for_landing_verbs_whatever_it_does_to_its_environment(server: ForkServer) -> None:
    """The mark stands in the start environment of an ancestor, which no cell can change."""
    code = (
        "from harnessctl.config import read_environment\n"
        "from harnessctl.layers.l3_durable.places.actor import agent_reason\n"
        "print(agent_reason(read_environment({'HOME': '/nonexistent'})))"
    )
    async with kernel(server) as session:
        await session.run(f"import os, subprocess; os.environ.pop({KERNEL_MARK!r})")
        said = await session.run(
            f"print(subprocess.run(['env', '-i', {sys.executable!r}, '-c', {code!r}],"
            " capture_output=True, text=True).stdout)"
        )
        assert "session-of-the-root" in said


async def test_an_environment_must_be_given(server: ForkServer) -> None:
    """Without one, jupyter_client would hand on ours with every key in it."""
    manager = fork_manager(server, transport="ipc")
    with pytest.raises(ValueError, match="env="):
        await manager.start_kernel()

    class Unguarded(ForkProvisioner):
        pre_launch = LocalProvisioner.pre_launch

    manager = AsyncKernelManager(transport="ipc", connection_file="/nonexistent/never-written")
    manager.write_connection_file = lambda **_: None
    manager._launch_args = {}
    given = await Unguarded(server=server, parent=manager, kernel_spec=manager.kernel_spec).pre_launch()
    assert given["env"]["HOME"] == os.environ["HOME"]


async def test_interrupt_reaches_the_cell_and_what_it_started(server: ForkServer) -> None:
    async with kernel(server) as session:
        mark = session.folder / "begun"
        for code in (
            f"open({str(mark)!r}, 'w')\nwhile True: pass",
            f"open({str(mark)!r}, 'w')\nimport time; time.sleep(60)",
            "import subprocess; subprocess.run(['sleep', '600'])",
        ):
            mark.unlink(missing_ok=True)
            message = session.send(code)
            assert await becomes(lambda: mark.exists() or bool(sleeping(session.pid)), True)
            below = sleeping(session.pid)
            assert bool(below) is ("subprocess" in code)
            await session.manager.interrupt_kernel()
            reply, _ = await session.answer(message)
            assert reply["ename"] == "KeyboardInterrupt"
            assert gone(below, 20.0)
        assert await session.run("'goes on'") == "'goes on'"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os; os._exit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
async def test_death_is_seen_with_its_reason(server: ForkServer, code: str, expected: int) -> None:
    async with kernel(server) as session:
        assert await session.manager.provisioner.poll() is None
        victim = psutil.Process(session.pid)
        session.send(code)
        assert gone({victim}, 20.0)
        deadline = time.monotonic() + 20
        while await session.manager.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
        assert await session.manager.provisioner.poll() == expected
        assert await session.manager.provisioner.wait() == expected
        assert not session.manager.has_kernel


async def test_shutdown_and_restart(server: ForkServer) -> None:
    """A polite end is exit code 0 and leaves no file; a restart keeps the connection, not the names."""
    async with kernel(server) as session:
        session.manager.shutdown_wait_time = 60.0
        await session.run("x = 1")
        before = session.pid
        await session.manager.restart_kernel()
        assert session.pid != before
        await session.connect()
        assert await session.run("x") == "NameError: name 'x' is not defined"
        process = session.manager.provisioner.process
        await session.manager.shutdown_kernel()
        assert process.returncode == 0
        assert not [path.name for path in session.folder.iterdir() if path.name != "ipython"]


async def test_a_cells_last_words_are_written(server: ForkServer, tmp_path: Path) -> None:
    """The interpreter ends as any other: exit functions run, open files are flushed, output still arrives.

    An ending kernel waits a second for its reader, as a stock one does: on a busy machine that may be too
    short, so the words have three chances.
    """
    heard = False
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with kernel(server) as session:
            await session.run(f"from pathlib import Path; folder = Path({str(folder)!r}); import atexit")
            await session.run("file = (folder / 'open').open('w'); file.write('flushed')")
            await session.run("atexit.register((folder / 'exit').write_text, 'ran')")
            await session.run(
                "class Last:\n    def __del__(self): print('last words', flush=True)\nlast = Last()"
            )
            session.manager.shutdown_wait_time = 60.0
            await session.manager.shutdown_kernel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    while (await session.client.get_iopub_msg())["content"].get("text") != "last words\n":
                        pass
                    heard = True
        assert (folder / "open").read_text() == "flushed"
        assert (folder / "exit").read_text() == "ran"
        if heard:
            break
    assert heard


async def test_what_a_kernel_left_behind_ends_with_it(server: ForkServer) -> None:
    """A sibling's background process stays."""
    async with kernel(server) as one, kernel(server) as two:
        assert await one.run(DAEMON) == await two.run(DAEMON) == "0"
        left, kept = family(one.pid), family(two.pid)
        assert len(left) == len(kept) == 2
        one.manager.provisioner.process.kill()
        assert await one.manager.provisioner.process.ended() == -signal.SIGKILL
        assert not running(left)
        assert running(kept) == kept


async def test_streams_go_where_they_are_told(server: ForkServer, tmp_path: Path) -> None:
    """What is written past IPython's own capture; the host's terminal when nothing is said."""
    write = "import os, sys; os.write(sys.{0}._original_stdstream_copy, b'to {0}')"
    with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
        async with kernel(server, stdout=out, stderr=err) as session:
            await session.run(write.format("stdout"))
            await session.run(write.format("stderr"))
    assert (tmp_path / "out").read_text() == "to stdout"
    assert (tmp_path / "err").read_text() == "to stderr"


async def test_eight_at_once(server: ForkServer) -> None:
    async def one(number: int) -> str:
        async with kernel(server) as session:
            return await session.run(f"{number} * 2")

    assert await asyncio.gather(*map(one, range(8))) == [str(n * 2) for n in range(8)]


async def test_fifty_kernels_leave_nothing(server: ForkServer) -> None:
    """No descriptor of ours or the server's, no process, no file."""

    def held() -> tuple[int, int, int]:
        (forking,) = psutil.Process(server.pid).children()
        return psutil.Process().num_fds(), forking.num_fds(), len(forking.children())

    with short_folder() as folder:
        files: list[Path] = []

        async def one(end: str) -> None:
            sockets = folder / "sockets"
            sockets.mkdir()
            (sockets / "c.json").write_text(json.dumps(connection(sockets)))
            process = server.fork(
                ["-f", str(sockets / "c.json")], environment(folder), folder, remove=sockets
            )
            await process.started()
            process.kill() if end == "kill" else process.terminate()
            assert await process.ended() == (-signal.SIGKILL if end == "kill" else -signal.SIGTERM)
            files.extend(path for path in folder.iterdir() if path.name != "ipython")

        await one("kill")
        before = await settled(held)
        for number in range(50):
            await one("kill" if number % 2 else "terminate")
        assert await becomes(held, before), held()
        assert not files


async def test_starts_as_a_stock_kernel_does(tmp_path: Path) -> None:
    """All that a cell can see of interpreter, shell, kernel and process, but for what must differ."""
    (tmp_path / "lib" / "debugpy").mkdir(parents=True)
    (tmp_path / "lib" / "debugpy" / "__init__.py").write_text("raise ImportError('not in this comparison')")
    look = Path(__file__).with_name("kernel_state.py").read_text()
    with short_folder() as folder:
        env = environment(folder, TMPDIR=str(folder), FOO="x", PYTHONPATH=str(tmp_path / "lib"))
        states = []
        with fork_server(environment={"FOO": "server", "PYTHONPATH": str(tmp_path / "lib")}) as server:
            for start in ("stock", "fork"):
                out = tmp_path / "state"
                sockets = folder / "s"
                sockets.mkdir()
                (sockets / "c.json").write_text(json.dumps(connection(sockets)))
                argv = ["-f", str(sockets / "c.json")]
                if start == "stock":
                    process: Any = subprocess.Popen(
                        [sys.executable, "-m", "ipykernel_launcher", *OPTIONS, *argv],
                        env={**env, "JPY_PARENT_PID": str(os.getpid())},
                        cwd=tmp_path,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                else:
                    null = subprocess.DEVNULL
                    process = server.fork(argv, env, tmp_path, stdout=null, stderr=null)
                await run_in(sockets, look.replace("STATE_FILE", repr(str(out))))
                states.append(json.loads(out.read_text()))
                process.kill()
                if start == "stock":
                    process.wait()
                else:
                    await process.ended()
                shutil.rmtree(sockets)
    stock, forked = map(flat, states)
    assert len(stock) > 500, "the comparison has lost its objects"
    assert {k: (stock.get(k), forked.get(k)) for k in stock | forked if stock.get(k) != forked.get(k)} == {}


async def test_a_configuration_file_is_obeyed(server: ForkServer) -> None:
    """The kernel made before the fork is not used when it would differ."""
    with short_folder() as folder:
        profile = folder / "ipython" / "profile_default"
        (profile / "startup").mkdir(parents=True)
        (profile / "ipython_kernel_config.py").write_text(
            "c.InteractiveShell.ast_node_interactivity = 'all'\nc.IPKernelApp.exec_lines = ['line = 1']\n"
        )
        (profile / "startup" / "first.py").write_text("startup = 2")
        env = environment(folder)
        async with kernel(server, env=env) as session:
            assert await session.run("1\n2\nline + startup") == "123"
            assert await session.run("get_ipython().kernel.shell is get_ipython()") == "True"
            assert await session.run("from IPython import get_ipython as g; g() is get_ipython()") == "True"
        async with kernel(
            server, extra_arguments=["--InteractiveShell.ast_node_interactivity=all"]
        ) as session:
            assert await session.run("1\n2\n'x'") == "12'x'"
            await session.manager.shutdown_kernel()


async def test_another_ipykernel_makes_its_own_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Versions that were not looked at get no kernel made before the fork, and work."""
    here = Path(forks.__file__).parent
    (tmp_path / "forkserver.py").write_text((here / "forkserver.py").read_text())
    text = (here / "forkedkernel.py").read_text()
    assert "KNOWN = {(7, 9)}" in text
    (tmp_path / "forkedkernel.py").write_text(text.replace("KNOWN = {(7, 9)}", "KNOWN = set()"))
    monkeypatch.setattr(forks, "_SERVER", tmp_path / "forkserver.py")
    with fork_server() as server:
        async with kernel(server) as session:
            assert await session.run("6 * 7") == "42"
            assert await session.run("get_ipython().kernel.assumed") == ""


async def test_needs_nothing_of_harnessctl(tmp_path: Path) -> None:
    """A kernel's Python with ipykernel and without us."""
    library = tmp_path / "library"
    library.mkdir()
    for folder in {Path(p) for p in sys.path if p.endswith(("site-packages", "dist-packages"))}:
        for path in folder.iterdir():
            if "harnessctl" not in path.name and path.suffix != ".pth" and not (library / path.name).exists():
                (library / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    with fork_server(python, environment={"PYTHONPATH": str(library)}) as server:
        env = environment(tmp_path, PYTHONPATH=str(library))
        async with kernel(server, env=env) as session:
            assert await session.run("import sys; sys.executable") == repr(python)
            assert (
                await session.run("import harnessctl") == "ModuleNotFoundError: No module named 'harnessctl'"
            )
            assert await session.run("import forks") == "ModuleNotFoundError: No module named 'forks'"
    with fork_server(python) as server, pytest.raises(ForkError, match="No module named 'ipykernel'"):
        async with kernel(server):
            pass


async def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    (tmp_path / "stack_data.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    )
    with fork_server(environment={"PYTHONPATH": str(tmp_path)}) as server:
        with pytest.raises(ForkError, match="started 1 thread"):
            async with kernel(server):
                pass
        assert server.alive


async def test_a_kernel_that_cannot_start_says_why(server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(ForkError, match="No such file or directory"):
        async with kernel(server, cwd=tmp_path / "absent"):
            pass
    async with kernel(server) as session:
        assert await session.run("'others do'") == "'others do'"


async def test_a_kernel_given_up_before_its_fork_does_not_live() -> None:
    with short_folder() as folder, fork_server() as server:
        (folder / "c.json").write_text(json.dumps(connection(folder)))
        unborn = server.fork(["-f", str(folder / "c.json")], environment(folder), folder)
        unborn.kill()
        assert unborn.poll() == -signal.SIGKILL
        async with kernel(server) as session:
            assert await session.run("1") == "1"
            (forking,) = psutil.Process(server.pid).children()
            assert [child.pid for child in forking.children()] == [session.pid]


def test_a_strangers_process_is_not_signalled(server: ForkServer) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        server.signal(stranger.pid, signal.SIGKILL)
        time.sleep(0.1)
        assert stranger.poll() is None
        stranger.kill()


async def test_only_kernels_of_its_own_python(server: ForkServer) -> None:
    provisioner = ForkProvisioner(server=server)
    for command in (
        ["/usr/bin/other", "-m", "ipykernel_launcher"],
        [server.python, "-m", "xpython", "-f", "x"],
    ):
        with pytest.raises(ForkError, match="is not what the preloaded process can become"):
            await provisioner.launch_kernel(command, env={})


async def test_information_for_others(server: ForkServer) -> None:
    async with kernel(server) as session:
        info = await session.manager.provisioner.get_provisioner_info()
        assert info["pid"] == info["pgid"] == session.pid
        assert info["server"] == server.pid
        assert info["connection_info"]["transport"] == "ipc"


def flat(value: object, path: str = "") -> dict[str, object]:
    """The leaves of nested mappings, by path."""
    if not isinstance(value, dict):
        return {path: value}
    return {p: leaf for key, inner in value.items() for p, leaf in flat(inner, f"{path}/{key}").items()}


async def becomes(look: Callable[[], object], expected: object) -> bool:
    """Whether ``look`` gives ``expected`` soon: the server closes a pipe after it has written to it."""
    deadline = time.monotonic() + 20
    while look() != expected and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return look() == expected


async def settled(look: Callable[[], object]) -> object:
    """What ``look`` gives once it has been the same for half a second."""
    seen, since = look(), time.monotonic()
    while time.monotonic() - since < 0.5:
        await asyncio.sleep(0.05)
        if (now := look()) != seen:
            seen, since = now, time.monotonic()
    return seen


def connection(folder: Path) -> dict[str, Any]:
    """A connection file's content."""
    ports = {f"{name}_port": n for n, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
    return {
        **ports,
        "transport": "ipc",
        "ip": str(folder / "k"),
        "key": "k",
        "signature_scheme": "hmac-sha256",
    }


async def run_in(folder: Path, code: str) -> None:
    """Run one cell in the kernel whose sockets stand in ``folder``."""
    from jupyter_client.asynchronous.client import AsyncKernelClient

    client = AsyncKernelClient()
    client.load_connection_info(connection(folder))
    async with asyncio.timeout(60):
        while not (folder / "k-2").exists():
            await asyncio.sleep(0.01)
        client.start_channels(stdin=False, hb=False)
        client.execute(code)
        reply = await client.get_shell_msg()
    client.stop_channels()
    client.context.destroy(linger=0)
    assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", []))


async def test_a_package_is_imported_once_for_all(tmp_path: Path) -> None:
    """Its modules stand in the kernel as the server loaded them, before the fork."""
    package = tmp_path / "a b" / "known"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    with fork_server(packages={"known": package}) as own:
        async with kernel(own) as one, kernel(own) as two:
            look = "import sys, os\nsys.modules['known.part'].LOADED_BY"
            loaders = {await one.run(look), await two.run(look)}
            assert len(loaders) == 1
            assert not loaders & {await one.run("os.getpid()"), await two.run("os.getpid()")}
