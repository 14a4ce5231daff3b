"""Images of programs of this machine (scripts/images --programs), made once and kept outside the tree.

They are docker-archives in a folder named by a hash of all their inputs: the programs and their libraries, the tools that
make the images, and dpkg's data. The label of the commit is that of the run that made them.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus" / "images"
TARGETS = ("operator", "gateway", "worker-cpu")
KEPT = 3  # the last used, for each set of targets


def program_of(target):
    return "janus-worker" if target.startswith("worker") else f"janus-{target}"


def key_of(programs, registry, targets):
    digest = hashlib.sha256(" ".join((registry, *targets)).encode())
    own = [ROOT / "Dockerfile", ROOT / "CMakeLists.txt", ROOT / "scripts" / "images", pathlib.Path("/var/lib/dpkg/status")]
    for folder in (ROOT / "scripts" / "images.d", ROOT / "examples" / "demo-model"):
        own += sorted(path for path in folder.rglob("*") if path.is_file())
    for path in [*own, *(programs / program_of(target) for target in targets)]:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    for target in targets:
        said = subprocess.run(["ldd", programs / program_of(target)], capture_output=True, text=True, check=False).stdout
        for word in sorted(word for word in said.split() if word.startswith("/")):
            file = pathlib.Path(word).resolve()
            digest.update(f"{word} {file} {file.stat().st_size} {file.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(programs, registry, folder, targets):
    """Uses a store that is deleted afterwards."""
    store = folder / "store"
    store.mkdir()
    (store / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{store}/images"\n'
                                        f'runroot = "{store}/run"\n')
    done = subprocess.run([ROOT / "scripts" / "images", "--programs", programs, "--registry", registry, "--archive", folder,
                           *targets], capture_output=True, text=True, check=False,
                          env={**os.environ, "CONTAINERS_STORAGE_CONF": str(store / "storage.conf")})
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    (folder / "names").write_text(done.stdout)
    shutil.rmtree(store)


def made_images(programs, registry, targets=TARGETS):
    """(names, archives), in the order of the targets."""
    programs = pathlib.Path(programs)
    for target in targets:
        program = programs / program_of(target)
        if not program.exists():
            raise AssertionError(f"no {program}; ninja -C {programs.parent} {program.name}")
    kind = CACHE / "_".join(targets)
    with locked(kind):
        folder = kind / key_of(programs, registry, targets)
        if not folder.exists():
            new = kind / "new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make(programs, registry, new, targets)
            new.rename(folder)  # complete even if this process is killed
        folder.touch()
        kept = sorted((path for path in kind.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
        for old in kept[:-KEPT]:
            if old.name != "new":
                old.rename(kind / "new")
            shutil.rmtree(kind / "new")
    return (folder / "names").read_text().split(), [folder / f"{target}.tar" for target in targets]


def configuration(archive):
    """The configuration of an image."""
    with tarfile.open(archive) as tar:
        manifest, = json.load(tar.extractfile("manifest.json"))
        return json.load(tar.extractfile(manifest["Config"]))["config"]
