"""RESULTS.tar.gz: what programs printed and what ran under compute-sanitizer, in one file that is small enough to be
brought back from anywhere. A later run takes it up again, on another machine too."""

import contextlib
import io
import os
import pathlib
import tarfile

END_BYTES = 256 << 10  # of each end of a log


def own_path(results, step):
    """The book of a step under compute-sanitizer."""
    return results.with_name(f"{results.name}.{step.replace(' ', '-')}")


def archive_of(results):
    return results.with_name(f"{results.name}.tar.gz")


def ends_of(path):
    data = path.read_bytes()
    left_out = len(data) - 2 * END_BYTES
    if left_out <= 0:
        return data
    return data[:END_BYTES] + f"\n... {left_out} bytes left out ...\n".encode() + data[-END_BYTES:]


def restore(results, logs, steps):
    """Books and logs that an earlier run has packed, where they are not. Those of results that are gone stand for nothing: their books
    go, their archive is put aside."""
    books = [own_path(results, step) for step in steps]
    if not results.exists():
        for path in books:
            path.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            archive_of(results).rename(f"{archive_of(results)}.before")
        return
    places = {path.name: path for path in books}
    with contextlib.suppress(OSError, tarfile.TarError), tarfile.open(archive_of(results)) as archive:
        for member in archive.getmembers():
            name = pathlib.PurePosixPath(member.name)
            place = places.get(member.name) or (logs / name.name if name.parent.name == "logs" else None)
            if place and member.isfile() and not place.exists():
                place.write_bytes(archive.extractfile(member).read())


def pack(results, logs, steps):
    """The archive, once it has taken the books in."""
    books = [path for step in steps if (path := own_path(results, step)).exists()]
    there = archive_of(results)
    beside = there.with_name(f"{there.name}.new")
    with tarfile.open(beside, "w:gz") as archive:
        for path, name in [*((book, book.name) for book in books),
                           *((log, f"logs/{log.name}") for log in sorted(logs.iterdir()) if log.is_file())]:
            data = path.read_bytes() if path in books else ends_of(path)
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), int(path.stat().st_mtime)
            archive.addfile(member, io.BytesIO(data))
    os.replace(beside, there)
    for book in books:
        book.unlink()
    return there
