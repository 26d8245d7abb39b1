from __future__ import annotations

import json
from pathlib import Path

from harnessctl.refine.kept import FailedAttempt, keep_replies
from harnessctl.refine.reply import Problem


def test_replies_are_kept_for_the_user_alone(tmp_path: Path) -> None:
    attempt = FailedAttempt("a reply\ud800", (Problem("edits[0]", "wrong"),))
    path = keep_replies(tmp_path / "refine", "01X", "p/m", [attempt])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(path.read_text()) == {
        "session": "01X",
        "model": "p/m",
        "attempts": [{"reply": "a reply\ud800", "problems": [{"path": "edits[0]", "message": "wrong"}]}],
    }
    assert [p.name for p in path.parent.iterdir()] == [path.name]
