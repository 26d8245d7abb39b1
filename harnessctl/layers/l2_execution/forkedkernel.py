"""What a forked kernel is: the stock ipykernel application, most of it made before the fork.

Loaded by path by ``forkserver.py``, in the kernels' Python: standard library and ipykernel only. The
server makes application, kernel and shell once; a fork gives them what belongs to one process:
environment, folder, identity, sockets, threads. A forked kernel that would differ from the prepared
one (other options, a configuration file) makes its own, as a stock kernel does.
"""

# ipykernel is typed in part only: its attributes are Optional that never are None in a running kernel.
# mypy: disable-error-code="union-attr, no-untyped-call, import-untyped, attr-defined, operator"

from __future__ import annotations

import atexit
import contextlib
import copy
import importlib
import os
import re
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import ipykernel
import ipykernel.debugger  # while debugpy is out of sight
import ipykernel_launcher
import IPython
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp, kernel_aliases
from IPython.core.profiledir import ProfileDir
from IPython.utils.path import get_home_dir
from traitlets.config.loader import Config, DeferredConfigString

#: Major versions of ipykernel and IPython whose shell may be made before the fork: it is known what
#: in it belongs to one process. With others each kernel makes its own, which costs 3 MB and 10 ms.
KNOWN = {(7, 9)}
#: Names of the application's class and its bases.
APPLICATION = {base.__name__ for base in IPKernelApp.__mro__}
#: What a kernel's start and its first cells import. Missing ones are left out.
WARM = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.magics.script",
    "IPython.core.oinspect",
    "IPython.core.ultratb",
    "IPython.extensions.storemagic",
    "IPython.utils.wildcard",
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "faulthandler",
    "pdb",
    "psutil",
    "pydoc",
    "pygments.formatters.terminal256",
    "pygments.lexers.python",
    "pygments.styles.default",
    "stack_data",
    "tornado.platform.asyncio",
    "tornado.queues",
)


def plain_options(argv: list[str]) -> list[tuple[str, str, str]] | None:
    """(class, trait, value) of ``-f FILE``, ``--log-level=ERROR`` and ``--Class.trait=value``.

    None when there are others, or one twice: those are for the stock parser.
    """
    found: list[tuple[str, str, str]] = []
    rest = list(argv)
    while rest:
        option = rest.pop(0)
        if option == "-f" and rest:
            option = f"--f={rest.pop(0)}"
        match = re.fullmatch(r"--([\w-]+|[A-Z]\w*\.\w+)=(.*)", option, re.DOTALL)
        target = kernel_aliases.get(match[1], match[1]) if match else None
        if match is None or not isinstance(target, str) or target.count(".") != 1:
            return None
        section, trait = target.split(".")
        if target != match[1]:
            # The stock parser files an alias under the class that is used in the place of the named one.
            if section not in APPLICATION:
                return None
            section = "IPKernelApp"
        found.append((section, trait, match[2]))
    return found if len({option[:2] for option in found}) == len(found) else None


class ForkedApp(IPKernelApp):
    """The stock application, but for options it reads by itself and a kernel that may be made already."""

    def parse_command_line(self, argv: Any = None) -> None:
        """As the base class; plain options without its parser of every trait of every class.

        That parser costs each kernel 3 MB and a quarter of its start.
        """
        plain = plain_options(argv)
        if plain is None:
            super().parse_command_line(argv)
        else:
            self.argv, self.extra_args = list(argv), []
            self.cli_config = Config()
            for section, name, value in plain:
                self.cli_config[section][name] = DeferredConfigString(value)
            self.update_config(self.cli_config)
        # A thread of SQLite's; and the log knows what was run.
        self.config.HistoryManager.enabled = False

    def init_code(self) -> None:
        """As the base class; the names of all loaded modules were listed before the fork.

        To list them again would touch each of them, 0.7 MB.
        """
        if not hasattr(self.shell, "_sys_modules_keys"):
            super().init_code()
            return
        self._run_startup_files()
        self._run_exec_lines()
        self._run_exec_files()
        if self.hide_initial_ns:
            self.shell.user_ns_hidden.update(self.shell.user_ns)
        self._run_cmd_line_code()
        self._run_module()

    def start(self) -> None:
        """As the base class; the thread that was asked for the end says its last words before it.

        That thread stops this one first, and then says through the publishing thread that it is idle.
        Whoever ends the publishing thread meanwhile makes the process hang or abort, now and then.
        """
        super().start()
        if self.control_thread is not None and self.control_thread.is_alive():
            self.control_thread.stop()
            self.control_thread.join()


class ForkedKernel(IPythonKernel):
    """A kernel that can be made before the fork and be given the rest after it."""

    #: The configuration it was made with.
    assumed: Any = None

    @classmethod
    def instance(cls, *args: Any, **kwargs: Any) -> Any:
        """The one kernel of this process: the prepared one where it fits, completed by ``kwargs``."""
        kernel = cls._instance if cls.initialized() else None
        if kernel is None or not kwargs:
            return super().instance(*args, **kwargs)
        if own_config(kwargs["parent"].config) == kernel.assumed:
            kernel.complete(**kwargs)
            return kernel
        kernel.discard()
        return super().instance(*args, **kwargs)

    @classmethod
    def prepare(cls, app: ForkedApp) -> None:
        """Make kernel and shell; nothing of it may belong to one process."""
        kernel = super().instance(parent=app, log=app.log, user_ns=app.user_ns, profile_dir=ProfileDir())
        kernel.assumed = own_config(app.config)
        kernel.shell._sys_modules_keys = set(sys.modules)

    def discard(self) -> None:
        """Make room for another kernel and shell."""
        atexit.unregister(self.shell.atexit_operations)
        type(self.shell).clear_instance()
        type(self).clear_instance()

    def complete(self, *, parent: Any, **traits: Any) -> None:
        """What the constructors of kernel and shell take from the process they run in."""
        for name, value in traits.items():
            if name != "user_ns":
                setattr(self, name, value)
        self.ident = str(uuid.uuid4())
        self._stdout, self._stderr = sys.stdout, sys.stderr
        shell = self.shell
        shell.profile_dir, shell.ipython_dir = self.profile_dir, parent.ipython_dir
        shell.displayhook.session, shell.displayhook.pub_socket = self.session, self.iopub_socket
        shell.displayhook.topic = self._topic("execute_result")
        shell.display_pub.session, shell.display_pub.pub_socket = self.session, self.iopub_socket
        shell.starting_dir, shell.home_dir = os.getcwd(), get_home_dir()
        shell.user_ns["_dh"][:] = [Path.cwd()]
        shell.history_manager.hist_file = Path(self.profile_dir.location) / "history.sqlite"
        shell.save_sys_module_state()
        self.config.IPKernelApp.connection_file = parent.connection_file
        if os.environ.get("JPY_SESSION_NAME"):
            shell.user_ns["__session__"] = os.environ["JPY_SESSION_NAME"]
        shell.init_environment()
        shell.init_virtualenv()
        # After the application's own, so that it runs before it, while streams are open.
        atexit.unregister(shell.atexit_operations)
        atexit.register(shell.atexit_operations)


def own_config(config: Any) -> Any:
    """A configuration without what differs between kernels anyway: the connection file."""
    config = copy.deepcopy(config)
    config.IPKernelApp.pop("connection_file", None)
    return config


class Preloaded:
    """The one application of a server, to be finished in each of its forks."""

    def __init__(self, options: list[str]) -> None:
        for name in WARM:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self.options = options
        self.python_path = os.environ.get("PYTHONPATH", "")
        self.app = ForkedApp.instance(kernel_class=ForkedKernel)
        if (ipykernel.version_info[0], IPython.version_info[0]) in KNOWN:
            self.app.parse_command_line(options)
            ForkedKernel.prepare(self.app)

    def initialize(self, wanted: dict[str, Any]) -> None:
        """In the kernel: bind its sockets, start its threads."""
        settle(wanted["environment"], wanted["cwd"], self.python_path)
        argv = [*self.options, *(option for option in wanted["argv"] if option not in self.options)]
        sys.argv = [ipykernel_launcher.__file__, *argv]
        sys.orig_argv = [sys.executable, "-m", "ipykernel_launcher", *argv]
        self.app.parent_handle = os.getppid()
        self.app.initialize(argv)

    def start(self) -> None:
        """Answer requests until shut down."""
        self.app.start()


def settle(environment: dict[str, str], cwd: str, python_path: str) -> None:
    """Environment, folder and paths as a program that was started with them would have them.

    :param python_path: ``PYTHONPATH`` as ``sys.path`` has it now.
    """
    # One by one: `update` would ask every class that was ever called a mapping, half a megabyte of them.
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        os.environ[name] = value
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    os.chdir(cwd)
    time.tzset()
    tempfile.tempdir = None
    wanted = os.environ.get("PYTHONPATH", "")
    if wanted != python_path:
        old = {os.path.abspath(path) for path in python_path.split(os.pathsep) if path}
        new = [os.path.abspath(path) for path in wanted.split(os.pathsep) if path]
        sys.path[:] = new + [path for path in sys.path if path not in old]
