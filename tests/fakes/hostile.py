"""Every way we know in which git, or a library that reads its configuration, is told to run a program.

Each name below is set to a program of its own that notes its name in a file, in the repository's
configuration, in the user's, in the environment. `docs/design/hostile-repositories.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: Configuration keys; the value is a program unless :func:`value` says otherwise.
KEYS = (
    "add.interactive.useBuiltin",
    "alias.cat-file",
    "alias.diff-files",
    "alias.evil",
    "alias.ls-files",
    "browser.evil.cmd",
    "browser.evil.path",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.attributesFile",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.hooksPath",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.https://example.com.helper",
    "diff.evil.command",
    "diff.evil.textconv",
    "diff.external",
    "diff.guitool",
    "diff.tool",
    "difftool.evil.cmd",
    "difftool.evil.path",
    "extensions.worktreeConfig",
    "filter.evil.clean",
    "filter.evil.process",
    "filter.evil.smudge",
    "gc.auto",
    "gc.recentObjectsHook",
    "gpg.openpgp.program",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "guitool.evil.cmd",
    "help.browser",
    "hook.evil.command",
    "http.proxyAuthMethod",
    "imap.tunnel",
    "include.path",
    "includeIf.gitdir:/**.path",
    "init.templateDir",
    "instaweb.browser",
    "instaweb.httpd",
    "interactive.diffFilter",
    "log.showSignature",
    "maintenance.auto",
    "man.evil.cmd",
    "man.evil.path",
    "man.viewer",
    "merge.evil.driver",
    "merge.tool",
    "mergetool.evil.cmd",
    "mergetool.evil.path",
    "pager.branch",
    "pager.diff",
    "pager.log",
    "pager.ls-files",
    "pager.show",
    "protocol.ext.allow",
    "remote.evil.url",
    "remote.evil.vcs",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "remote.origin.vcs",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "sendemail.sendmailCmd",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "sequence.editor",
    "submodule.recurse",
    "submodule.sub.update",
    "tar.evil.command",
    "trailer.evil.cmd",
    "trailer.evil.command",
    "uploadpack.packObjectsHook",
    "web.browser",
)

#: Hooks, in ``.git/hooks`` and below ``core.hooksPath``.
HOOKS = (
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
)

#: Environment variables.
VARIABLES = (
    "BROWSER",
    "GIT_ASKPASS",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "SSH_ASKPASS",
)

#: What ``.gitattributes`` in the tree, ``.git/info/attributes`` and ``core.attributesFile`` say.
ATTRIBUTES = "* filter=evil diff=evil merge=evil ident text eol=crlf\n*.utf working-tree-encoding=UTF-16\n"


class Evil:
    """Programs below ``folder``, each of which notes its name in ``folder/ran`` and fails at nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "attributes").write_text(ATTRIBUTES)
        self.config(folder / "included", {"core.fsmonitor": self.program("included core.fsmonitor")})

    def program(self, name: str, folder: Path | None = None, file: str = "") -> str:
        """Path of a program that notes ``name``."""
        folder = folder or self.folder / "bin"
        folder.mkdir(exist_ok=True, parents=True)
        path = folder / (file or "".join(c if c.isalnum() else "-" for c in name))
        path.write_text(f"#!/bin/sh\necho '{name}' >> '{self.folder}/ran'\nexit 0\n")
        path.chmod(0o755)
        return str(path)

    def ran(self) -> set[str]:
        """Names of the programs that ran since the last call."""
        file = self.folder / "ran"
        found = set(file.read_text().splitlines()) if file.exists() else set()
        file.unlink(missing_ok=True)
        return found

    def hooks(self, folder: Path, label: str) -> str:
        """Every hook in ``folder``."""
        for name in HOOKS:
            self.program(f"{label} {name}", folder, name)
        return str(folder)

    def value(self, key: str) -> str:
        """What the key is set to."""
        program = self.program(key)
        special = {
            "core.attributesFile": str(self.folder / "attributes"),
            "core.hooksPath": self.hooks(self.folder / "hooks", "core.hooksPath"),
            "init.templateDir": str(self.folder / "template"),
            "include.path": str(self.folder / "included"),
            "includeIf.gitdir:/**.path": str(self.folder / "included"),
            "remote.evil.url": f"ext::{program} %S",
            "remote.evil.vcs": "evil",
            "remote.origin.vcs": "evil",
            "sendemail.smtpServer": program,
            "filter.evil.process": "",
            "credential.https://example.com.helper": program,
        }
        fixed = {
            "add.interactive.useBuiltin": "false",
            "extensions.worktreeConfig": "true",
            "gc.auto": "1",
            "log.showSignature": "true",
            "maintenance.auto": "true",
            "protocol.ext.allow": "always",
            "submodule.recurse": "true",
            "http.proxyAuthMethod": "anyauth",
        }
        tools = dict.fromkeys(
            ("diff.tool", "diff.guitool", "merge.tool", "man.viewer", "web.browser"), "evil"
        )
        tools |= dict.fromkeys(("help.browser", "instaweb.browser"), "evil")
        if key.startswith("alias.") or key == "submodule.sub.update":
            return f"!{program}"
        if key == "hook.evil.command":
            return program
        return (special | fixed | tools).get(key, program)

    def everything(self) -> dict[str, str]:
        """Every key with its value."""
        return {key: self.value(key) for key in KEYS}

    def config(self, path: Path, settings: Mapping[str, str]) -> None:
        """Append ``settings`` to a configuration file, whatever git thinks of them."""
        lines = []
        for key, value in settings.items():
            section, _, name = key.rpartition(".")
            head, dot, sub = section.partition(".")
            quoted = value.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'[{head} "{sub}"]' if dot else f"[{head}]")
            lines.append(f'\t{name} = "{quoted}"')
        with path.open("a") as file:
            file.write("\n".join(lines) + "\n")

    def environment(self) -> dict[str, str]:
        """Every variable, each naming a program."""
        found = {name: self.program(name) for name in VARIABLES}
        fsmonitor = self.program("GIT_CONFIG_COUNT core.fsmonitor")
        found |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": fsmonitor,
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{self.program('GIT_CONFIG_PARAMETERS')}'",
            "GIT_TEMPLATE_DIR": str(self.folder / "template"),
            "GIT_EXEC_PATH": str(self.folder / "exec"),
            "LESSOPEN": f"|{self.program('LESSOPEN')} %s",
        }
        for name in ("git-ls-files", "git-diff-files", "git-cat-file", "git-remote-evil", "git-evil"):
            self.program(f"GIT_EXEC_PATH {name}", self.folder / "exec", name)
        return found
