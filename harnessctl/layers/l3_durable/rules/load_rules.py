"""The load rules of schema version 1, frozen: a harness that loads today loads with every later release.

Nothing here may become stricter. A stricter rule is a lint rule, or waits for schema version 2.
``tests/fixtures/schema-1`` holds an odd but valid entry for each.
"""

from __future__ import annotations

from harnessctl.domain.finding import Severity
from harnessctl.layers.l3_durable.rules.registry import Rule

#: Bytes of the file with the frontmatter. 50 MB memories have been seen in the field.
MAX_MAIN_FILE = 256 * 1024
#: Bytes of any other file of a skill.
MAX_OTHER_FILE = 5 * 1024 * 1024
#: Bytes of one record: its excerpts are 16 KB at most, quotes and names come on top.
MAX_RECORD = 256 * 1024
#: Bytes of ``harness.toml``.
MAX_POLICY = 64 * 1024
#: Files of one skill.
MAX_FILES = 1000
#: Segments of a memory's name, and of a path inside a skill.
MAX_DEPTH = 8
#: Bytes of one path below ``.harness/``.
MAX_PATH = 512


def _load(rule: str, title: str, reason: str, example: str, fix: str) -> Rule:
    return Rule(rule, "load", Severity.ERROR, title, reason, example, fix)


ENCODING = _load(
    "HRN101",
    "File is not UTF-8",
    "One byte that is not UTF-8 makes some readers drop the whole file, others show another text. "
    "The byte's offset is named.",
    "---\ndescription: caf\\xe9 mode\n---",
    "save the file as UTF-8",
)
FENCES = _load(
    "HRN102",
    "No frontmatter",
    "The description is what a model sees first; a file without frontmatter would be invisible.",
    "# Build commands\n\nRun make.",
    "begin the file with '---', 'description: …', '---'",
)
YAML = _load(
    "HRN103",
    "Frontmatter is not a YAML mapping",
    "A file that does not parse would vanish without a word. Most often a value holds ': ' and wants quotes.",
    "---\ndescription: Use it so: carefully\n---",
    "quote the value",
)
DUPLICATE_KEY = _load(
    "HRN104",
    "Duplicate key",
    "YAML readers differ on which of the two counts.",
    "---\ndescription: one\ndescription: two\n---",
    "keep one of the two",
)
INDIRECTION = _load(
    "HRN105",
    "Alias, anchor, merge key or tag",
    "What is read must stand in the file as it is: an alias can grow without bounds, a tag changes types, "
    "and a value that begins with '*', '&' or '!' is nearly always text without quotes.",
    "---\ndescription: *bold* words\ntags: &t [a]\n---",
    "quote the value",
)
REQUIRED = _load(
    "HRN106",
    "No description",
    "The description decides whether an entry is read at all.",
    "---\ntitle: Build\n---",
    "add one line 'description: what it says and when it matters'",
)
NAME = _load(
    "HRN107",
    "Name outside the grammar",
    "The path is the id. Lower-case ASCII cannot be read differently by two file systems; only memory "
    "nests. A file in a kind's folder that belongs to no entry would be read by nobody.",
    ".harness/memory/Build Commands.md",
    "rename it: a-z, 0-9, '.', '_', '-' (64 characters at most), ending in .md",
)
MODE = _load(
    "HRN108",
    "File mode not allowed",
    "Only files under a skill's scripts/ are meant to be run.",
    "100755 .harness/memory/build.md",
    "clear the executable bit (git update-index --chmod=-x)",
)
SYMLINK = _load(
    "HRN109",
    "Symlink",
    "A link reads other files than the ones that were reviewed.",
    "120000 .harness/memory/keys.md -> ../../.ssh/config",
    "commit a copy of the file",
)
GITLINK = _load(
    "HRN110",
    "Nested repository",
    "A repository inside the folder is stored as an empty gitlink: nobody else gets its content.",
    "160000 .harness/skills/x",
    "remove the inner .git folder and add the files themselves",
)
SIZE = _load(
    "HRN111",
    "File too large",
    "A file this large would fill a model's window and every later request with it.",
    ".harness/memory/dump.md of 50 MB",
    "split it, or keep the data outside and say where",
)
COMPLEXITY = _load(
    "HRN112",
    "Frontmatter too large or too deep",
    "Limits keep a hook from hanging on a file made to hang it.",
    "---\ndescription: [[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]\n---",
    "move text into the body, flatten the mapping",
)
SKILL_FILE = _load(
    "HRN113",
    "Skill without SKILL.md",
    "A skill is found by this one name, in this case, on every system; skill.md works on some only.",
    ".harness/skills/x/skill.md",
    "name the file SKILL.md",
)
POLICY = _load(
    "HRN114",
    "harness.toml cannot be read",
    "Budgets, gates and review policy come from it; a run must not go on without them.",
    "[budgets\nturns = 5",
    "mend the TOML; `schema` is 1 or left out",
)
COUNT = _load(
    "HRN115",
    "Too many files or too deep a path",
    "Limits keep a checkout possible on every system.",
    ".harness/memory/a/b/c/d/e/f/g/h/i.md",
    "use fewer files or folders",
)

LOAD_RULES: tuple[Rule, ...] = (
    ENCODING, FENCES, YAML, DUPLICATE_KEY, INDIRECTION, REQUIRED, NAME, MODE, SYMLINK, GITLINK, SIZE,
    COMPLEXITY, SKILL_FILE, POLICY, COUNT,
)  # fmt: skip

CLASH = Rule(
    "HRN120",
    "state",
    Severity.ERROR,
    "Names differ only by case or Unicode form",
    "On macOS and Windows the two are one file: a checkout shows one content under both names. Two branches "
    "can each add one and merge without a conflict.",
    ".harness/skills/x/SKILL.md and .harness/skills/x/skill.md",
    "rename one of the two",
)
DEPENDENCY = Rule(
    "HRN121",
    "state",
    Severity.ERROR,
    "Reference to an entry that does not exist",
    "One branch adds an entry that depends on another, a second deletes that one: both are valid, their "
    "merge is not, and no hook runs on a merge without conflicts. So readers check it too.",
    "---\ndescription: d\ndepends_on: memory/gone\n---",
    "restore the entry, or take it out of depends_on",
)

STATE_RULES: tuple[Rule, ...] = (CLASH, DEPENDENCY)
