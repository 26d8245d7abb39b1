"""Forked kernels for jupyter_client: a provisioner that asks a fork server instead of starting a program.

:func:`fork_manager` gives a kernel manager that works like any other: start, interrupt, restart, shut
down. Stock kernels come from a plain ``AsyncKernelManager``.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Instance

from harnessctl.layers.l2_execution.forks import ForkedProcess, ForkError, ForkServer

#: Name of the kernel spec, and of the provisioner in its ``metadata.kernel_provisioner``.
NAME = "harnessctl-fork"
#: Seconds a kernel may take to bind its sockets; the first waits for the server's imports.
START_S = 60.0

_LAUNCHER = ["-m", "ipykernel_launcher"]


class ForkProvisioner(LocalProvisioner):  # type: ignore[misc]  # jupyter_client counts as untyped here
    """Kernels of one fork server.

    Connection file, ports and their cleaning are those of the local provisioner; the process is a
    :class:`.forks.ForkedProcess`.
    """

    server = Instance(ForkServer)
    process: ForkedProcess | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """As the base class, which would hand on our own environment, keys and all, when given none.

        :raises ValueError: no ``env`` was given.
        """
        if kwargs.get("env") is None:
            raise ValueError("a forked kernel is started with the environment it gets: pass env=")
        return dict(await super().pre_launch(**kwargs))

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork a kernel and wait until its sockets are bound, so that clients connect at once.

        :raises ForkError: ``cmd`` starts no IPython kernel of the server's Python, the server is gone,
            or the kernel did not come up within :data:`START_S`.
        """
        if cmd[:3] != [self.server.python, *_LAUNCHER]:
            raise ForkError(f"{' '.join(cmd[:3])} is not what the preloaded process can become")
        self.cwd = kwargs.get("cwd") or Path.cwd()
        process = self.server.fork(
            cmd[3:], kwargs["env"], self.cwd, stdout=kwargs.get("stdout"), stderr=kwargs.get("stderr")
        )
        try:
            async with asyncio.timeout(START_S):
                await process.started()
        except BaseException as error:
            process.kill()
            if isinstance(error, TimeoutError):
                raise ForkError(f"it did not start within {START_S:.0f} s") from None
            raise
        self.process = process
        self.pid = self.pgid = process.pid
        return self.connection_info

    async def wait(self) -> int | None:
        """Wait for the end of the kernel and all processes below it; its return code."""
        if self.process is None:
            return 0
        code: int = await self.process.ended()
        self.process = None
        return code

    async def send_signal(self, signum: int) -> None:
        """Signal the kernel's process group; nobody when the kernel has ended."""
        if self.process is not None:
            self.process.send_signal(signum)

    async def get_provisioner_info(self) -> dict[str, Any]:
        """As the base class, with the fork server's process id."""
        return {**await super().get_provisioner_info(), "server": self.server.pid}


class ForkSpecs(KernelSpecManager):  # type: ignore[misc]  # as above
    """Knows the one kernel spec that a fork server serves, and those that are installed."""

    server = Instance(ForkServer)

    def get_kernel_spec(self, kernel_name: str) -> Any:
        """The spec named :data:`NAME`, or an installed one."""
        if kernel_name != NAME:
            return super().get_kernel_spec(kernel_name)
        return KernelSpec(
            argv=[self.server.python, *_LAUNCHER, "-f", "{connection_file}"],
            display_name="Python (forked)",
            language="python",
            metadata={"kernel_provisioner": {"provisioner_name": NAME, "config": {"server": self.server}}},
        )


def fork_manager(server: ForkServer, **traits: Any) -> Any:
    """A kernel manager whose kernels are forked by ``server``.

    :param traits: of ``AsyncKernelManager``, such as ``transport="ipc"`` and a short ``ip``.
    """
    factory = KernelProvisionerFactory.instance()
    if NAME not in factory.provisioners:
        value = f"{__name__}:{ForkProvisioner.__name__}"
        factory.provisioners[NAME] = EntryPoint(NAME, value, KernelProvisionerFactory.GROUP_NAME)
    return AsyncKernelManager(kernel_name=NAME, kernel_spec_manager=ForkSpecs(server=server), **traits)
