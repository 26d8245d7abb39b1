"""Kernels that the user has installed for Jupyter, by name."""

from __future__ import annotations

import sys

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from harnessctl.domain.errors import UsageError
from harnessctl.layers.l2_execution.python import PythonChoice


def kernel_named(name: str) -> PythonChoice:
    """The Python kernel that ``jupyter kernelspec list`` calls ``name``.

    :raises UsageError: ``no_kernel``: there is none, or it runs another language.
    """
    manager = KernelSpecManager()
    try:
        spec = manager.get_kernel_spec(name)
    except NoSuchKernel:
        known = ", ".join(sorted(manager.find_kernel_specs())) or "none"
        raise UsageError(
            f"there is no Jupyter kernel called {name!r}; there are: {known}",
            id="no_kernel",
            hint="jupyter kernelspec list shows where they are; or name an interpreter with --python",
        ) from None
    if spec.language.lower() != "python":
        raise UsageError(
            f"the Jupyter kernel {name!r} runs {spec.language}; cells here are Python",
            id="no_kernel",
            hint="choose a Python kernel, or name an interpreter with --python",
        )
    argv = [part.replace("{resource_dir}", spec.resource_dir) for part in spec.argv]
    if argv[0] in ("python", "python3"):
        # What Jupyter means by it: the interpreter that the kernel specs belong to.
        argv[0] = sys.executable
    return PythonChoice(
        argv[0],
        f"the Jupyter kernel {name}",
        kernel=name,
        command=tuple(argv),
        variables=tuple(spec.env.items()),
    )
