"""Injected bugs: a real fix taken out of a newer source, so that the ground truth is exact.

The kernel that crashes is the newer release less some hunks; the fix is to put them back. Build,
boots and comparison are those of any other bug.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from icml.core.errors import UserError
from icml.kenv.apply import apply_changes, patched_files, reverse
from icml.kenv.models import Bug, FixSource, Patch
from icml.kenv.sources import (
    StaleSource,
    cache_folder,
    hunks_between,
    open_folder,
    placed,
    source_with,
)
from icml.kenv.templates import diff_text


def inject(bug: Bug) -> Bug:
    """Return a bug like ``bug`` in the release that has its fix, by taking the fix out again.

    Only the recorded hunks are taken out, so what else changed between the releases stays; the
    kernel differs from the fixed one by exactly the fix. It has no baselines: it never ran.

    Raises:
        UserError: If the bug's fix is not recorded as hunks of another release.
        SourceMissing: If a source was not fetched.
        PatchRejected: If the fix cannot be taken out of the newer release.
    """
    if bug.fix_source is None or bug.bug_source is not None:
        raise UserError(f"{bug.id} records no fix as hunks of a newer release: nothing to revert")
    draft = bug.model_copy(
        update={
            "id": f"{bug.id}-injected",
            "source": bug.fix_source.source,
            "bug_source": FixSource(source=bug.source, hunks=bug.fix_source.hunks),
            "fix_source": None,
            "baselines": [],
        }
    )
    patch = derive_bug_patch(draft)
    assert patch is not None
    assert draft.bug_source is not None
    recorded = draft.bug_source.model_copy(update={"sha256": patch.sha256})
    return draft.model_copy(update={"bug_source": recorded})


def derive_bug_patch(bug: Bug) -> Patch | None:
    """Return what puts an injected bug into its source, None for any other bug.

    Raises:
        SourceMissing: If a source was not fetched.
        StaleSource: If it is not the recorded one.
        PatchRejected: If the fix cannot be taken out.
    """
    if bug.bug_patch is not None or bug.bug_source is None:
        return bug.bug_patch
    wanted = bug.bug_source
    fix = hunks_between(wanted.source.version, bug.source.version, wanted.hunks)
    tree = source_with(bug.source.version, bug.directory)
    # Written out anew: the hunks' places are those of the newer release.
    patch = _difference(tree, Patch(diff=fix.diff), backwards=True)
    if wanted.sha256 is not None and patch.sha256 != wanted.sha256:
        raise StaleSource(f"what injects {bug.id} derived here is not the recorded patch")
    return patch


def injected_fix(bug: Bug) -> Patch:
    """Return the fix of an injected bug: exactly what was taken out.

    Raises:
        UserError: If the bug is not an injected one, or as in `derive_bug_patch`.
    """
    patch = derive_bug_patch(bug)
    if patch is None:
        raise UserError(f"{bug.id} is no injected bug")
    return _difference(bug_tree(bug), patch, backwards=True)


def _difference(tree: Path, patch: Patch, *, backwards: bool) -> Patch:
    changes = reverse(patch.changes) if backwards else patch.changes
    files = patched_files(tree, changes)
    parts = [diff_text(path, file.old or "", file.new or "") for path, file in files.items()]
    return Patch(diff="".join(parts))


def bug_tree(bug: Bug) -> Path:
    """Return the tree that has the bug's directory as it crashes.

    Raises:
        SourceMissing: If a source was not fetched.
        PatchRejected: If an injected bug does not fit its source.
    """
    tree = source_with(bug.source.version, bug.directory)
    patch = derive_bug_patch(bug)
    if patch is None:
        return tree
    target = cache_folder() / "injected" / f"{bug.source.version}-{patch.sha256[:16]}"
    if target.is_dir():
        return target
    with FileLock(open_folder(target.parent) / f"{target.name}.lock"):
        if not target.is_dir():  # another process may have been faster
            with placed(target) as draft:
                shutil.copytree(tree / bug.directory, draft / bug.directory, symlinks=True)
                apply_changes(draft, patch.changes)
    return target


def write_bug(bug: Bug, shelf: Path) -> Path:
    """Write a bug into a folder of bugs, as `icml.kenv.bugs.load_bug` reads it.

    Returns:
        The bug's folder.

    Raises:
        UserError: If there is one of that name, or it cannot be written.
    """
    import json

    from icml.core.journal import cannot_write

    home = shelf / bug.id
    if home.exists():
        raise UserError(f"{home} is there already: remove it, or name another folder")
    (reproducer,) = bug.reproducers
    record = bug.model_dump(mode="json", exclude_defaults=True, exclude={"crash_report"})
    record["reproducers"] = [reproducer.model_dump(mode="json", exclude={"text"})]
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{bug.id}-", dir=shelf))
        try:
            (draft / "bug.json").write_text(json.dumps(record, indent=1) + "\n")
            (draft / "reproducer.c").write_text(reproducer.text)
            (draft / "report.txt").write_text(bug.crash_report)
            draft.chmod(0o755)
            draft.rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise cannot_write(home, error) from error
    return home
