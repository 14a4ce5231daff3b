"""RESULTS.tar.gz: the output of the programs and the books of compute-sanitizer steps, in one file that is small enough
to copy from any machine. A later run continues from it, on another machine too."""

import contextlib
import io
import os
import pathlib
import tarfile

END_BYTES = 256 << 10  # of each end of a log


def own_path(results, step):
    """The path of the book of a compute-sanitizer step."""
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
    """Unpacks the books and logs of an earlier run that are missing here. If the results file is gone, its books are
    useless: they are deleted, and its archive is put aside."""
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
    """Writes the archive and deletes the books that it contains."""
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
