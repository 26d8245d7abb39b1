"""The worked example of recursion: a question over a file far larger than the model's window.

    python docs/recursion.py > docs/recursion.md

Makes a repository with one file of support tickets, 16 times the model's window of 8,000 tokens, starts a
loopback server that speaks OpenAI's protocol and plays the model, and runs the installed harnessctl. The
model's part is played by rules (this file), so that the page can be made anew without a key: what is
real is everything else: kernels, children, calls, budgets, the log.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fakes.openai_server import FakeOpenAI, Say, Seen  # noqa: E402

COMMAND = Path(sys.executable).parent / "harnessctl"
WINDOW = 8_000
TICKETS = 240
CHILDREN = 6
TASK = "In tickets.txt, how many customers complain that a delivery came late? Name the three angriest."

_LATE = (
    "it was promised for Monday and came on Friday",
    "the parcel sat in a depot for nine days after the day you named",
    "my daughter's birthday was over when the box at last stood at the door",
)
_OTHER = (
    "the colour is not the one in the picture",
    "the invoice names the old address",
    "a screw is missing, the delivery itself was quick",
    "I was charged twice for one chair",
)
_TALK = (
    "I have been a customer for years and never had to write",
    "the person on the phone was friendly but could not help",
    "please answer by mail, I work in the daytime",
    "I attach the number of my order again, as you asked",
    "we moved last spring and everything else went well",
)
#: Paths and times, which are not counted: so the page has the same numbers on every machine.
_MACHINES_OWN = re.compile(r"(/[\w.+-]+)+|\b\d+\.\d s\b")


@dataclass(frozen=True)
class Ticket:
    """What is in the file, and what a reader should find.

    :ivar anger: exclamation marks at its end.
    """

    number: int
    name: str
    late: bool
    anger: int
    text: str


def tickets(count: int = TICKETS) -> list[Ticket]:
    """The same tickets every time."""
    dice = random.Random(7)  # noqa: S311 - no secret
    made = []
    for number in range(1, count + 1):
        late = dice.random() < 0.3
        anger = dice.randrange(1, 40) if late else dice.randrange(0, 3)
        name = f"{dice.choice(['Ada', 'Ben', 'Cleo', 'Dov', 'Eva', 'Finn'])} {number:03d}"
        talk = [dice.choice(_TALK) for _ in range(dice.randrange(20, 60))]
        talk.insert(dice.randrange(len(talk)), dice.choice(_LATE if late else _OTHER))
        text = ". ".join(talk) + "!" * anger
        made.append(Ticket(number, name, late, anger, f"#{number} from {name}\n{text}\n"))
    return made


ROOT_CODE = f"""\
text = Path('tickets.txt').read_text()
tickets = re.split(r'(?m)^(?=#\\d+ from )', text)[1:]
print(len(text), 'characters,', len(tickets), 'tickets; the first begins:', tickets[0][:60])
share = -(-len(tickets) // {CHILDREN})
readers = [
    rlm(f"Read tickets {{first + 1}} to {{min(first + share, len(tickets))}} of tickets.txt. Which complain "
        "of a late delivery, and how angry is each? Answer as JSON: [[name, anger], ...]", name=f"r-{{n}}")
    for n, first in enumerate(range(0, len(tickets), share), 1)
]
late = [pair for reader in readers for pair in json.loads(await reader)]
print(len(late), 'late;', sorted(late, key=lambda pair: -pair[1])[:3])"""

CHILD_CODE = """\
tickets = re.split(r"(?m)^(?=#\\d+ from )", Path("tickets.txt").read_text())[1:]
mine = tickets[{first} - 1 : {last}]
answers = llm.batch(
    mine,
    system='Is this a complaint about a late delivery? Answer "no", or "yes" and its anger from 1 to 40.',
)
late = [
    [ticket.splitlines()[0].partition(" from ")[2], int(answer.split()[1])]
    for ticket, answer in zip(mine, answers)
    if answer.startswith("yes")
]
final(json.dumps(late))"""


def play(seen: Seen) -> Say:
    """The model's next reply: what a good one would say, found by rules."""
    messages = seen.messages
    last = str(messages[-1]["content"])
    prompt = sum(len(_MACHINES_OWN.sub("-", json.dumps(message))) for message in messages) // 4
    if not seen.body.get("tools"):
        late, anger = any(words in last for words in _LATE), len(last) - len(last.rstrip("\n!")) - 1
        return _say(prompt, content=f"yes {anger}" if late else "no")
    if match := re.search(r"Read tickets (\d+) to (\d+)", str(messages[1]["content"])):
        return _say(prompt, code=CHILD_CODE.format(first=match[1], last=match[2]))
    if len(messages) <= 2:
        return _say(prompt, code=ROOT_CODE)
    found = re.search(r"(\d+) late; (\[.*?\]\])", last)
    if found is None:
        return _say(prompt, content=f"That did not work: {last[-300:]}")
    names = [name for name, _ in ast.literal_eval(found[2])]
    return _say(prompt, content=_answer(found[1], names))


def _say(prompt: int, **what: Any) -> Say:
    reply = sum(map(len, what.values())) // 4 + 4
    return Say(**what, usage=(prompt, reply, 0))


def expected() -> str:
    """The answer, from what is known of the tickets."""
    late = [ticket for ticket in tickets() if ticket.late]
    angriest = sorted(late, key=lambda ticket: -ticket.anger)[:3]
    return _answer(len(late), [ticket.name for ticket in angriest])


def _answer(count: int | str, names: list[str]) -> str:
    return f"{count} customers complain of a late delivery; angriest: {', '.join(names)}."


@dataclass(frozen=True)
class Shown:
    """What the example came to.

    :ivar session: what ``sessions show`` prints.
    :ivar file_tokens: of the file that the question is about, four characters each.
    :ivar asked: (prompt, completion) tokens of each request, as the server counted them.
    """

    result: dict[str, Any]
    session: str
    file_tokens: int
    asked: tuple[tuple[int, int], ...]

    @property
    def largest(self) -> int:
        """Prompt tokens of the largest request."""
        return max(prompt for prompt, _ in self.asked)

    @property
    def tokens(self) -> int:
        """Of all requests and replies."""
        return sum(map(sum, self.asked))


def run(folder: Path) -> Shown:
    """Run it in ``folder``, which must be empty."""
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    text = "".join(ticket.text for ticket in tickets())
    (work / "tickets.txt").write_text(text)
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    env |= {"HOME": str(home), "OPENAI_API_KEY": "sk-example", "HARNESSCTL_WINDOW": str(WINDOW)}
    for command in ("init -q", "add .", "-c user.name=x -c user.email=x@x commit -q -m x"):
        subprocess.run(["git", *command.split()], cwd=work, env=env, check=True)
    with FakeOpenAI(play) as server:
        env["HARNESSCTL_API_BASE"] = server.base_url
        result = json.loads(_harnessctl(["run", "--json", "--model", "openai/gpt-4o-mini", TASK], work, env))
        shown = _harnessctl(["sessions", "show", result["session"]], work, env)
        counted = [play(seen).usage or (0, 0, 0) for seen in server.requests]
    return Shown(result, shown, len(text) // 4, tuple((prompt, reply) for prompt, reply, _ in counted))


def _harnessctl(arguments: list[str], cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run([COMMAND, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def document(shown: Shown) -> str:
    """The page."""
    return f"""\
# Recursion, worked through

Made by `python docs/recursion.py`, which also plays the model's part, by rules, behind a loopback server
that speaks OpenAI's protocol. Everything else is real: the command, the kernels, six children,
{len(shown.asked)} requests through litellm, budgets, logs.

The question is about one file of support tickets: about {shown.file_tokens:,} tokens, for a model whose
window is {WINDOW:,}. No request came near the window: the largest had {shown.largest:,} prompt tokens.
The text never enters the root's context. It stays in files and in variables; six children read a share
each, ticket by ticket with `llm.batch`, and the root sees six short answers.

```console
$ harnessctl run --model openai/gpt-4o-mini "{TASK}"
$ harnessctl sessions show
{shown.session.rstrip()}
```

The last lines are the tree with what each session used. The server counted {shown.tokens:,} tokens: the
same. Prices are those that ship with litellm for the model's name.

## What a child ran
```python
{CHILD_CODE.format(first=1, last=40)}
```

`rlm()` gives a handle at once, so all six work at the same time; `await` gives a child's answer, or
raises when it has none. Each child has a context, a kernel and a log of its own (`harnessctl sessions
show` with its id); its kernel is forked from a preloaded process, so that it costs milliseconds and
little memory. Limits hold over the tree: with `--max-tokens`, calls near the limit wait for each other,
and at most one passes it. How it works: [children](design/children.md).
"""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(document(run(Path(name))), end="")
