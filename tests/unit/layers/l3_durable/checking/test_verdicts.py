"""A cache that is lost, torn, forged or stale never changes a verdict."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from harnessctl.domain.ids import Kind
from harnessctl.layers.l3_durable.checking import verdicts as module
from harnessctl.layers.l3_durable.checking.verdicts import VerdictCache
from harnessctl.layers.l3_durable.files.tree import FILE, TreeItem
from harnessctl.layers.l3_durable.places import sealed
from harnessctl.layers.l3_durable.places.sealed import read_key
from harnessctl.layers.l3_durable.rules.load import check_load
from harnessctl.layers.l3_durable.rules.verdict import Verdict, judge

BAD = b"---\ndescription: a: b\n---\n"
OID = hashlib.sha1(BAD).hexdigest()


def fill(folder: Path) -> tuple[Path, bytes]:
    """A cache that holds the true verdict on BAD; its file and key."""
    key = read_key(folder / "key")
    cache = VerdictCache(folder / "verdicts", key)
    cache.put(OID, "memory", judge(Kind.MEMORY, BAD))
    cache.save()
    return folder / "verdicts", key


def rules_with(cache: VerdictCache) -> list[str]:
    items = [TreeItem("memory/x.md", FILE, OID, lambda: BAD)]
    return [f.rule for f in check_load(items, verdicts=cache).findings]


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path, key = fill(tmp_path)
    assert VerdictCache(path, key).get(OID, "memory") == judge(Kind.MEMORY, BAD)
    assert VerdictCache(path, key).get(OID, "prompt") is None


def test_a_forged_line_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    path, key = fill(tmp_path)
    line = path.read_bytes().strip()
    row = json.loads(line.partition(b" ")[2])
    row["problems"] = []
    forged = json.dumps(row, sort_keys=True, separators=(",", ":")).encode()
    for mac in (line[:64], b"0" * 64, b"", hashlib.sha256(forged).hexdigest().encode()):
        path.write_bytes(mac + b" " + forged + b"\n")
        assert VerdictCache(path, key).get(OID, "memory") is None
        assert rules_with(VerdictCache(path, key)) == ["HRN103"]


def test_without_the_hmac_the_forgery_would_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard is what holds: a cache that trusts its file lets the bad entry through."""

    with monkeypatch.context() as patch:
        patch.setattr(sealed.SealedLines, "_mac", lambda *_: b"0" * 64)
        cache = VerdictCache(tmp_path / "verdicts", b"k")
        cache.put(OID, "memory", Verdict())
        cache.save()
        assert rules_with(VerdictCache(tmp_path / "verdicts", b"k")) == []
    assert rules_with(VerdictCache(tmp_path / "verdicts", b"k")) == ["HRN103"]


def test_another_key_reads_nothing(tmp_path: Path) -> None:
    path, _ = fill(tmp_path)
    assert VerdictCache(path, b"other").get(OID, "memory") is None


def test_torn_and_foreign_lines_cost_only_themselves(tmp_path: Path) -> None:
    path, key = fill(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(b"\xff\xfe\n" + whole + whole.strip()[:-20])
    cache = VerdictCache(path, key)
    assert cache.get(OID, "memory") is not None
    cache.put("b" * 40, "memory", Verdict())
    cache.save()
    again = VerdictCache(path, key)
    assert again.get("b" * 40, "memory") == Verdict(), "not glued to the torn line"


def test_other_rules_read_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, key = fill(tmp_path)
    monkeypatch.setattr(module, "rules_digest", lambda: "other")
    assert VerdictCache(path, key).get(OID, "memory") is None


def test_the_rules_digest_covers_what_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = module.rules_digest()
    module.rules_digest.cache_clear()
    changed = tmp_path / "frontmatter.py"
    changed.write_text("# other rules\n")
    monkeypatch.setattr(module.frontmatter, "__file__", str(changed))
    assert module.rules_digest() != before
    module.rules_digest.cache_clear()


def test_a_lost_cache_is_begun_again(tmp_path: Path) -> None:
    path, key = fill(tmp_path)
    path.unlink()
    assert rules_with(VerdictCache(path, key)) == ["HRN103"]


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = VerdictCache(tmp_path / "file" / "verdicts", read_key(tmp_path / "file" / "key"))
    cache.put(OID, "memory", Verdict())
    cache.save()


def test_a_file_past_its_limit_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, key = fill(tmp_path)
    monkeypatch.setattr(sealed, "MAX_FILE", 10)
    cache = VerdictCache(path, key)
    cache.put("b" * 40, "memory", Verdict())
    cache.save()
    again = VerdictCache(path, key)
    assert (again.get(OID, "memory"), again.get("b" * 40, "memory")) == (None, Verdict())


def test_the_key_is_the_users_alone(tmp_path: Path) -> None:
    key = read_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key(tmp_path / "key") == key
    os.chmod(tmp_path / "key", 0o644)
    assert read_key(tmp_path / "key") != key, "others may have read it, so lines under it prove nothing"
    (tmp_path / "key").write_bytes(b"short")
    os.chmod(tmp_path / "key", 0o600)
    assert len(read_key(tmp_path / "key")) == 32
