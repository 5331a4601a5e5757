import gzip
import hashlib
import shutil
import subprocess
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.core.process import ChildResult
from icml.kenv.building import WorkCopy, compile_errors, finish_build, make
from icml.kenv.guest import init_script, memory_disk
from icml.kenv.models import Bug, FixSource, Image, KernelSource, Reproducer
from icml.kenv.sources import (
    StaleSource,
    cache_folder,
    derive_fix,
    fetch,
    full_tree,
    packages,
)

ENDED = ChildResult(0, "", "", 1.0, 0.0, "exit", "process group")


@pytest.fixture
def copy(tmp_path) -> WorkCopy:
    for name in ("pristine", "copy"):
        (tmp_path / name).mkdir()
    for name in ("a.c", "b.c"):
        (tmp_path / "pristine" / name).write_text(f"int {name[0]};\n")
        (tmp_path / "copy" / name).hardlink_to(tmp_path / "pristine" / name)
    return WorkCopy(tmp_path / "pristine", tmp_path / "copy", tmp_path / "touched.json")


def test_a_patch_changes_its_files_alone_and_never_the_pristine_ones(copy) -> None:
    before = (copy.copy / "b.c").stat().st_mtime_ns
    assert copy.settle({"a.c": "int other;\n", "new.c": "int n;\n"}) != []
    assert (copy.copy / "a.c").read_text() == "int other;\n"
    assert (copy.pristine / "a.c").read_text() == "int a;\n"
    assert (copy.copy / "b.c").stat().st_mtime_ns == before


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a.c", "b.c", "new.c"]),
            st.one_of(st.none(), st.sampled_from(["int x;\n", "int y;\n"])),
        ),
        max_size=5,
    )
)
def test_any_series_of_patches_leaves_what_the_last_one_says(tmp_path_factory, series) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / "pristine").mkdir()
    (root / "copy").mkdir()
    pristine = {"a.c": "int a;\n", "b.c": "int b;\n"}
    for name, text in pristine.items():
        (root / "pristine" / name).write_text(text)
        (root / "copy" / name).write_text(text)
    for wanted in series:
        WorkCopy(root / "pristine", root / "copy", root / "state").settle(wanted)
        expected = {k: v for k, v in {**pristine, **wanted}.items() if v is not None}
        assert {f.name: f.read_text() for f in (root / "copy").iterdir()} == expected


def test_after_an_interrupted_build_all_objects_are_thrown_away(tmp_path) -> None:
    thrown = []
    dirty = tmp_path / "dirty"

    def killed() -> ChildResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, dirty, killed, lambda: thrown.append("first"))
    make(
        tmp_path,
        dirty,
        lambda: ENDED._replace(exit=None, reason="timeout"),
        lambda: thrown.append("second"),
    )
    make(tmp_path, dirty, lambda: ENDED, lambda: thrown.append("third"))
    make(tmp_path, dirty, lambda: ENDED, lambda: thrown.append("never"))
    assert thrown == ["second", "third"]


def test_a_failed_build_gives_no_image(tmp_path) -> None:
    image = Image(key="k", folder=tmp_path / "images/k")
    failed = ENDED._replace(exit=2, stderr="/host/net/x.c:17:3: error: expected ';'\n")
    result = finish_build(failed, image, lambda draft: None, shown={"/host/": ""})
    assert (result.ok, result.image, image.folder.exists()) == (False, None, False)
    assert (result.errors[0].file, result.errors[0].line) == ("net/x.c", 17)


def test_what_make_itself_complains_of_is_told_where_the_compiler_is_silent() -> None:
    said = 'ERROR: modpost: "nowhere" [x.ko] undefined!'
    found = compile_errors(f"{said}\nmake: *** [Makefile:1: modules] Error 2\n")
    assert found[0].message == said


@pytest.mark.skipif(shutil.which("cpio") is None, reason="the peer is cpio")
def test_cpio_unpacks_the_memory_disk(tmp_path) -> None:
    files = {
        "bin": (0o040755, b""),
        "bin/tool": (0o100755, b"\x00abc"),
        "bin/link": (0o120777, b"tool"),
        "empty": (0o100644, b""),
    }
    archive = gzip.decompress(memory_disk(files))
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["cpio", "-i", "--quiet"], input=archive, check=True, cwd=out)
    assert (out / "bin/tool").read_bytes() == b"\x00abc"
    assert (out / "bin/tool").stat().st_mode == 0o100755
    assert (out / "bin/link").readlink().name == "tool"
    assert (out / "empty").read_bytes() == b""


def test_the_first_program_is_a_shell_script_that_deletes_itself_first() -> None:
    script = init_script("0123456789abcdef", Reproducer(text="", repeat=7, timeout_s=9))
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    lines = script.splitlines()
    assert lines[1] == "/bin/busybox rm /init"
    assert "-lt 7" in script
    assert "KILL 9 /reproducer" in script


def test_a_fix_is_the_recorded_hunks_of_two_releases() -> None:
    old = "".join(f"line {n}\n" for n in range(60))
    new = old.replace("line 3\n", "first\n").replace("line 30\n", "second\n")
    for version, text in (("1", old), ("2", new)):
        folder = cache_folder() / "sources" / version / "net"
        folder.mkdir(parents=True)
        (folder / "x.c").write_text(text)
    later = KernelSource(kind="deb", ref="linux", version="2")

    def bug(digest: str | None) -> Bug:
        return Bug(
            id="b", title="t", crash_type="BUG", directory="net", crash_report="r",
            source=KernelSource(kind="deb", ref="linux", version="1"),
            reproducers=[Reproducer(text="")],
            fix_source=FixSource(source=later, hunks={"net/x.c": [2]}, sha256=digest),
        )  # fmt: skip

    fix = derive_fix(bug(None))
    assert (fix.hunks, fix.added, fix.removed) == (1, 1, 1)
    assert "+second\n" in fix.diff
    assert "first" not in fix.diff
    with pytest.raises(StaleSource):
        derive_fix(bug(hashlib.sha256(b"other").hexdigest()))


def test_a_package_with_another_digest_is_refused_and_nothing_is_unpacked(
    tmp_path, monkeypatch
) -> None:
    # A folder that others may enter, as a cache has to be.
    tmp_path.chmod(0o755)
    for package in packages():
        (tmp_path / f"{package.name}_{package.version}_all.deb").write_bytes(b"forged")
    monkeypatch.setattr("os.geteuid", lambda: 1)
    with pytest.raises(StaleSource, match="has not the sha256"):
        fetch(debs=tmp_path)
    assert list(cache_folder().glob("debs/*.deb")) == []
    assert not (cache_folder() / "kernels").exists()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs Debian's dpkg-deb")
def test_a_tree_that_another_thread_unpacked_and_uses_is_not_replaced(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1)
    package = next(package for package in packages() if package.role == "source")
    archive = tmp_path / "deb/usr/src/linux-source-6.1.tar.xz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(__file__, "linux-source-6.1/net/x.c")
    (tmp_path / "deb/DEBIAN").mkdir()
    (tmp_path / "deb/DEBIAN/control").write_text(
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: a source\n"
    )
    debs = cache_folder() / "debs"
    debs.mkdir(parents=True)
    file = debs / f"{package.name}_{package.version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "deb", file], check=True)
    start = threading.Barrier(4)

    def unpack(_: int) -> int:
        start.wait()
        return full_tree(package.version).stat().st_ino

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(unpack, range(4)))) == 1


def test_a_package_that_is_not_in_the_folder_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1)
    with pytest.raises(UserError, match=packages()[0].name):
        fetch(debs=tmp_path)
