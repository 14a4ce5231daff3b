"""The files of the tree, and hashes of the sources that a check depends on, including uncommitted ones."""

import functools
import hashlib
import subprocess

import process


@functools.cache
def files():
    """Every tracked file and every new one that git does not ignore, sorted."""
    done = subprocess.run(["git", "ls-files", "-co", "-z", "--exclude-standard"], cwd=process.ROOT, capture_output=True,
                          check=True)
    return sorted(name for name in done.stdout.decode().split("\0") if name)


@functools.cache
def _hash(name):
    path = process.ROOT / name
    if path.is_symlink():
        return hashlib.sha256(str(path.readlink()).encode()).digest()
    if not path.is_file():  # deleted but not committed
        return b""
    return hashlib.sha256(path.read_bytes()).digest()


def hash_of(places):
    """One hash of all files at or under these places."""
    total = hashlib.sha256()
    for name in files():
        if any(name == place or name.startswith(place + "/") for place in places) and (found := _hash(name)):
            total.update(name.encode() + b"\0" + found)
    return total.hexdigest()[:16]
