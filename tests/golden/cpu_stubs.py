"""Makes PyPI's CUDA build of torch importable on a machine without CUDA.

PyPI has no CPU-only torch for Linux on x86-64, and the CUDA build's libraries are linked with others of several GB. On a
CPU none of these is called, but the loader requires every library, version name and symbol. This script runs with the
python of a virtual environment. It reads what torch's libraries need, and links small stubs beside them. Libraries that
the environment has (libcudart, libcupti) stay as they are.

Never use such an environment with a GPU. Running the script twice does no harm.
"""

import collections
import pathlib
import re
import subprocess
import sysconfig

SITE = pathlib.Path(sysconfig.get_path("platlib"))
TORCH = SITE / "torch" / "lib"


def readelf(option: str, library: pathlib.Path) -> str:
    command = ["readelf", "-W", option, library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted():
    """What torch's libraries need from CUDA: library names, versions per library, symbols per version."""
    libraries: set[str] = set()
    versions: dict[str, set[str]] = collections.defaultdict(set)
    symbols: dict[str, set[str]] = collections.defaultdict(set)
    for library in TORCH.glob("*.so"):
        libraries |= set(re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl).*?)\]", readelf("-d", library)))
        owner = None
        for line in readelf("-V", library).splitlines():
            if match := re.search(r"File: (\S+)", line):
                owner = match[1]
            elif owner and (match := re.search(r"Name: (\S+)\s+Flags", line)):
                versions[owner].add(match[1])
        for columns in map(str.split, readelf("--dyn-syms", library).splitlines()):
            undefined = len(columns) > 7 and columns[6] == "UND"
            if undefined and re.match(r"_*(cu|nv|nccl)", columns[7]):
                symbol, _, version = columns[7].partition("@")
                symbols[version.lstrip("@")].add(symbol)
    return libraries, versions, symbols


def make_stub(library: str, versions: set[str], symbols: dict[str, set[str]]) -> None:
    """Links TORCH/library: every symbol is a block of zeros, under its version name if it has one."""
    source, script = TORCH / "stub.c", TORCH / "stub.map"
    named = symbols[""].union(*(symbols[v] for v in versions))
    source.write_text("".join(f"char {s}[64];\n" for s in sorted(named)))
    nodes = (f"{v} {{ global: {'; '.join(sorted(symbols[v]))}; }};\n" for v in sorted(versions))
    script.write_text("".join(nodes))
    command = ["gcc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", library, "stub.c"]
    if versions:
        command.append("-Wl,--version-script,stub.map")
    subprocess.run(command, cwd=TORCH, check=True)
    source.unlink()
    script.unlink()


def main() -> None:
    if not TORCH.is_dir():
        raise SystemExit(f"{TORCH} is missing: install torch first, and run this with its python")
    libraries, versions, symbols = wanted()
    made = 0
    for library in sorted(libraries):
        # libcuda belongs to the driver: torch opens it itself if it exists.
        real = any(SITE.glob(f"nvidia/**/{library}"))
        if real or library.startswith(("libcudart", "libcuda.")) or (TORCH / library).exists():
            continue
        make_stub(library, versions[library], symbols)
        made += 1
    print(f"{TORCH}: {made} stand-ins made")


if __name__ == "__main__":
    main()
