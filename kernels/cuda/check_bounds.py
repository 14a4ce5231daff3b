#!/usr/bin/env python3
"""Holds what ptxas made of each kernel to committed bounds.

check_bounds.py CUDA_VERSION BOUNDS REPORT...

REPORTs are what `nvcc -Xptxas=-v` says. BOUNDS has a line for each kernel and architecture: the most
registers, bytes of stack and bytes of spills that it may take; a kernel without a line, and a line
without a kernel, are errors, and so is a bound that is more than an eighth above what is taken. On an
architecture that it does not name nothing may spill. That ptxas serialized wgmma is an error anywhere,
and so is shared memory that a kernel declares itself: all of it is to be the launch plan's, which counts it.
Its first line names the compiler it is true of: under another nothing is held, which exit 77 says.
"""

import re
import sys

ENTRY = re.compile(
    r"Compiling entry function '\S*?\d([A-Za-z]+Kernel)(?:I((?:L[ib]\d+E)+))?E\S*' for '(sm_\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"\b([1-9]\d*) bytes smem")
# "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
SERIALIZED = re.compile(r"\(C75\d\d\)|wgmma.*serialized")


def read_report(text):
    """{(kernel, architecture): (registers, stack, spills)}"""
    taken = {}
    current = stack = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            kernel, parameters, architecture = match.groups()
            values = ",".join(re.findall(r"L[ib](\d+)E", parameters or ""))
            current = f"{kernel}<{values}>" if values else kernel, architecture
            stack = None
        elif "Compiling entry function" in line and "Kernel" in line:
            raise ValueError(f"a kernel whose name this does not understand: {line.strip()}")
        elif "Function properties for" in line and current and stack is not None:
            current = None  # a function that the kernel calls: it has a separate report
        elif current and stack is None and (match := STACK.search(line)):
            frame, stores, loads = map(int, match.groups())
            stack = frame, stores + loads
        elif current and (match := USED.search(line)):
            taken[current] = int(match[1]), *(stack or (0, 0))
            current = None
    return taken


def read_bounds(text):
    lines = text.splitlines()
    header = re.fullmatch(r"# CUDA (\S+): .*", lines[0])
    if not header:
        raise ValueError("the first line of the bounds names no compiler: '# CUDA 13.0: ...'")
    bounds = {}
    for line in lines[1:]:
        words = line.split("#")[0].split()
        if words:
            kernel, architecture, *numbers = words
            bounds[kernel, architecture] = tuple(map(int, numbers))
    return header[1], bounds


def problems(taken, bounds):
    architectures = {architecture for _, architecture in taken}
    held = {architecture for _, architecture in bounds}
    for key in sorted(taken.keys() | bounds.keys()):
        name = f"{key[0]} for {key[1]}"
        if key not in taken:
            if key[1] in architectures:
                yield f"{name} has bounds and is not compiled"
            continue
        if key[1] not in held:
            if taken[key][2] > 0:
                yield f"{name} takes {taken[key][2]} bytes of spills; without bounds it may take none"
            continue
        if key not in bounds:
            yield f"{name} has no bounds; it takes {' '.join(map(str, taken[key]))}"
            continue
        for what, is_, bound in zip(("registers", "bytes of stack", "bytes of spills"),
                                    taken[key], bounds[key], strict=True):
            if is_ > bound:
                yield f"{name} takes {is_} {what}, its bound is {bound}"
            elif bound - is_ > max(bound / 8, 4):
                yield f"{name} takes only {is_} {what}: lower its bound of {bound}"


def main(arguments):
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    version, bounds_file, *reports = arguments
    with open(bounds_file, encoding="utf-8") as file:
        compiler, bounds = read_bounds(file.read())
    taken = {}
    serialized, declared = [], []
    for report in reports:
        with open(report, encoding="utf-8") as file:
            text = file.read()
        taken |= read_report(text)
        serialized += [line.strip() for line in text.splitlines() if SERIALIZED.search(line)]
        declared += [f"a kernel of {report} has {match[1]} bytes of shared memory beside its launch plan's"
                     for match in SHARED.finditer(text)]
    for (kernel, architecture), numbers in sorted(taken.items()):
        print(f"{kernel:28} {architecture:8} {numbers[0]:4} {numbers[1]:4} {numbers[2]:4}")
    if not taken:
        print("the reports name no kernel", file=sys.stderr)
        return 1
    if version != compiler:
        print(f"the bounds are of CUDA {compiler}, this is {version}: nothing is held to them")
        return 77
    found = serialized + declared + list(problems(taken, bounds))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
