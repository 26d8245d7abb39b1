"""A cell: everything it can see of its process, interpreter, kernel and shell, written to STATE_FILE.

What two kernels must not share (ids, addresses, process numbers, times) is masked.
"""
# ruff: noqa
# mypy: ignore-errors


def _look():
    import gc, json, locale, logging, os, re, resource, signal, sys, tempfile, threading, traitlets, warnings

    ip = get_ipython()
    app = ip.kernel.parent

    def text(value):
        if callable(value) and not isinstance(value, type):
            return "callable"
        said = repr(value)[:4000].replace("forkedkernel.ForkedKernel", "ipykernel.ipkernel.IPythonKernel")
        said = said.replace("forkedkernel.ForkedApp", "ipykernel.kernelapp.IPKernelApp").replace(
            "ForkedApp", "IPKernelApp"
        )
        for pattern, name in (
            (r"DeferredConfigString\(('[^']*')\)", r"\1"),
            (r"0x[0-9a-f]+|at [0-9a-f]{10,}", "ADDRESS"),
            (r"\b[0-9a-f]{8}[-_][0-9a-f]{4,}[-_0-9a-f]*|\b[0-9a-f]{32,}\b", "ID"),
            (r"daemon \d+|\b%d\b|\b%d\b" % (os.getpid(), os.getppid()), "NUMBER"),
            (r"datetime\([^)]*\)", "TIME"),
        ):
            said = re.sub(pattern, name, said)
        return said

    def name_of(value):
        return text(type(value))

    state = {}
    env = dict(os.environ)
    state["environment"] = {k: v for k, v in env.items() if k != "JPY_PARENT_PID"}
    state["parent"] = [env["JPY_PARENT_PID"] == str(os.getppid()), app.parent_handle == os.getppid()]
    state["sys"] = {
        k: text(getattr(sys, k))
        for k in (
            "argv",
            "orig_argv",
            "path",
            "flags",
            "executable",
            "prefix",
            "warnoptions",
            "meta_path",
            "path_hooks",
        )
    }
    streams = (sys.stdin, sys.__stdin__, sys.__stdout__, sys.__stderr__, sys.stdout, sys.stderr)
    state["streams"] = [
        [name_of(s), *(str(getattr(s, a, None)) for a in ("encoding", "errors", "line_buffering", "name"))]
        for s in streams
    ]
    state["hooks"] = [
        text(type(getattr(sys, k))) for k in ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
    ]
    state["signals"] = {int(s): text(signal.getsignal(s)) for s in signal.valid_signals()}
    state["blocked"] = text(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    state["threads"] = sorted(t.name for t in threading.enumerate())
    main = sys.modules["__main__"]
    state["main"] = [text(main), sorted(k for k in vars(main) if k != "_look"), main is ip.user_module]
    state["names"] = {
        k: text(v)
        for k, v in ip.user_ns.items()
        if k not in ("_look", "In", "_i", "_ii", "__builtins__", "_ih", "_i1")
    }
    state["hidden"] = sorted(map(str, ip.user_ns_hidden))
    state["builtins"] = sorted(vars(__import__("builtins")))
    state["warnings"] = list(map(text, warnings.filters))
    state["logging"] = [
        logging.root.level,
        text(logging.root.handlers),
        sorted(
            (text(n), l.level, [name_of(h) for h in l.handlers])
            for n, l in logging.root.manager.loggerDict.items()
            if getattr(l, "handlers", None)
        ),
    ]
    state["process"] = [
        os.getcwd(),
        os.getpid() == os.getsid(0) == os.getpgid(0),
        os.getuid(),
        tempfile.gettempdir(),
    ]
    state["limits"] = [resource.getrlimit(n) for n in range(10)]
    state["locale"] = [
        locale.setlocale(locale.LC_ALL),
        sys.getfilesystemencoding(),
        locale.getpreferredencoding(),
    ]
    state["collector"] = [gc.isenabled(), gc.get_threshold(), gc.get_debug()]
    files = []
    for number in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{number}").split(":")[0])
        except OSError:
            pass
    # Kinds, not numbers: threads that start make theirs while this runs.
    state["descriptors"] = sorted(set(files))
    state["first descriptors"] = [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3)]
    # What is new in a forked kernel: that it may have been made before, and that it holds no list of
    # files for a debugger. The application's own options come in another order.
    skipped = {
        "assumed",
        "_parent_header_global",
        "_kernel_modules",
        "_sys_modules_keys",
        "cli_config",
        "argv",
        "kernel_class",
        "classes",
        "config",
    }

    def traits(thing, seen):
        if id(thing) in seen:
            return
        seen.add(id(thing))
        found = {}
        for name in thing.trait_names():
            if name in skipped:
                continue
            try:
                value = getattr(thing, name)
            except traitlets.TraitError:
                value = "unset"
            found[name] = name_of(value) if isinstance(value, traitlets.HasTraits) else text(value)
        state["traits of " + name_of(thing)] = found
        for value in list(thing._trait_values.values()):
            if isinstance(value, traitlets.HasTraits):
                traits(value, seen)

    seen = set()
    for thing in (app, ip.kernel, ip, *ip.configurables):
        traits(thing, seen)
    machinery = {
        "_trait_values",
        "_trait_notifiers",
        "_trait_validators",
        "_cross_validation_lock",
        "_orig_sys_modules_main_mod",
    }
    for thing in (
        app,
        ip.kernel,
        ip,
        ip.displayhook,
        ip.display_pub,
        ip.history_manager,
        ip.Completer,
        ip.logger,
        ip.magics_manager,
    ):
        state["attributes of " + name_of(thing)] = {
            k: text(v) for k, v in sorted(vars(thing).items()) if k not in machinery | skipped
        }
    flat = lambda config: {f"{s}.{k}": text(v).strip("'") for s, c in config.items() for k, v in c.items()}
    state["configuration"] = [flat(app.config), flat(ip.config), flat(ip.kernel.config)]
    state["magics"] = {k: sorted(v) for k, v in ip.magics_manager.magics.items()}
    state["events"] = sorted((k, len(v)) for k, v in ip.events.callbacks.items())
    state["compiler"] = name_of(ip.compile)
    return json.dumps(state, indent=1, sort_keys=True)


open(STATE_FILE, "w").write(_look())
