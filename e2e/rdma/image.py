"""The initial RAM disk of a guest: programs of this machine with their libraries, modules of Debian's kernel, busybox.

Nothing is downloaded here; scripts/deps rdma installs what it is made of.
"""

import os
import pathlib
import re
import stat
import subprocess
import tempfile

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# Folders of a merged /usr that are links in the guest too.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def modules_in_order(folder, names):
    """The files of these modules and of those that they depend on, each after what it depends on."""
    files = {file.stem.replace("-", "_"): file for file in folder.rglob("*.ko")}
    ordered = []

    def add(name):
        file = files.get(name)
        if file is None:
            raise FileNotFoundError(f"{folder} has no module {name}; remove the folder and run scripts/deps rdma again")
        if file in ordered:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", b"\0" + file.read_bytes())
        for needed in depends[1].decode().split(",") if depends else ():
            if needed:
                add(needed.replace("-", "_"))
        ordered.append(file)

    for name in names:
        add(name)
    return ordered


def libraries_of(file):
    """The libraries that the dynamic linker loads for a program or library, itself included."""
    told = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
    if missing := re.findall(r"(\S+) => not found", told):
        raise FileNotFoundError(f"{file} needs {', '.join(missing)}, which this machine does not have")
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", told)]


class Image:
    """Files by their path in the guest, written as a cpio archive (newc), which the kernel unpacks."""

    def __init__(self):
        self._entries = {}  # path: (mode, content)
        for link, target in LINKS.items():
            self._entries[link] = (stat.S_IFLNK | 0o777, target.encode())
        for folder in ("proc", "sys", "dev", "tmp", "run", "root"):
            self._folder(folder)

    def _folder(self, path):
        for one in [*reversed(pathlib.PurePosixPath(path).parents), pathlib.PurePosixPath(path)]:
            if str(one) != ".":
                self._entries.setdefault(str(one), (stat.S_IFDIR | 0o755, b""))

    def write(self, path, content, mode=0o644):
        """`content`: text or bytes of the file at this path of the guest."""
        path = path.lstrip("/")
        first, _, rest = path.partition("/")
        if rest and first in LINKS:
            path = f"{LINKS[first]}/{rest}"
        self._folder(str(pathlib.PurePosixPath(path).parent))
        self._entries[path] = (stat.S_IFREG | mode, content.encode() if isinstance(content, str) else content)

    def link(self, path, target):
        self._folder(str(pathlib.PurePosixPath(path.lstrip("/")).parent))
        self._entries[path.lstrip("/")] = (stat.S_IFLNK | 0o777, target.encode())

    def program(self, file, path=None):
        """Adds a program or library with all libraries that it needs, without the debugger's tables."""
        file = pathlib.Path(file)
        with tempfile.NamedTemporaryFile() as stripped:
            done = subprocess.run(["strip", "--strip-debug", "-o", stripped.name, file], capture_output=True, check=False)
            content = pathlib.Path(stripped.name if done.returncode == 0 else file).read_bytes()
        self.write(path or str(file), content, 0o755)
        for library in libraries_of(file):
            if str(library).lstrip("/") not in self._entries:
                self.write(str(library), library.read_bytes(), 0o755)

    def tree(self, folder, path):
        """Adds the files below a folder."""
        for file in sorted(pathlib.Path(folder).rglob("*")):
            if file.is_file():
                self.write(f"{path}/{file.relative_to(folder)}", file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)

    def save(self, file):
        with open(file, "wb") as out:
            for number, (path, (mode, content)) in enumerate(sorted(self._entries.items()), 1):
                self._save_entry(out, path, mode, content, number)
            self._save_entry(out, "TRAILER!!!", 0, b"", 0)

    @staticmethod
    def _save_entry(out, path, mode, content, number):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        out.write(head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4))
