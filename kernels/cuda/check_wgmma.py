#!/usr/bin/env python3
"""Holds the PTX of kernels with wgmma to what their host form cannot show, since inline assembly is not in it.

check_wgmma.py FOLDER...

Reads the *.ptx in FOLDERs that are for sm_90a. In each kernel that is named Wgmma:
  - a product is of bfloat16 with fp32 sums, has as many registers as its shape asks for, negates neither
    operand and transposes none but the second, where PRODUCTS has it;
  - its descriptors are an address of which 14 bits are left, shifted by 4, and one of their forms; what is a
    warpgroup's own hangs on its number, what all share does not. PRODUCTS says what is which: of experts
    the first operand, 64 rows of weights, is its own, and the second shared; of attention in the latent space
    queries are shared, values are its own and turned. Where operands are of one form and neither is a
    warpgroup's own, what tells them apart is the address: queries lie where they lie, keys in either unit;
  - of weights in fewer than 16 bits the 64-row operand is four registers instead, of which no two products
    between fences have one in common;
  - on every way through the kernel (ptx_paths.py) nothing writes a register of a product between its fence and
    the wait that lets its group through, or reads its sums there, and a kernel ends behind its products;
  - products stand between wgmma.fence and wgmma.commit_group, with no jump between;
  - behind a wait for copies come the fence that shows them to wgmma and the barrier, with no jump between.
No other kernel has a product.
"""

import pathlib
import re
import sys

from ptx_paths import Walk

# 128-byte swizzle, 8 rows in 1,024 bytes, the offset that it does not use; the 4 steps of 32 bytes in a row.
FORMS = {0x4000004000010000 + 2 * i for i in range(4)}
# Turned: 64 columns in 8 KiB; the 4 steps of 16 rows in these.
TURNED = {0x4000004002000000 + 128 * i for i in range(4)}
# By the beginning of a kernel's name, then by (columns, whether b is transposed), for each operand: the forms of
# its descriptor; whether it depends on the warpgroup's number, None where the compiler may know the number by
# another name (each warpgroup scores other key blocks); whether its address is a constant, None where that
# proves nothing. None as columns: any number.
PRODUCTS = {
    "WgmmaExpert": {(None, 0): (("a", FORMS, True, None), ("b", FORMS, False, None))},
    "WgmmaAbsorbed": {(64, 0): (("a", FORMS, False, True), ("b", FORMS, None, False)),
                      (256, 1): (("a", FORMS, None, False), ("b", TURNED, True, False))},
}

ENTRY = re.compile(r"\.entry\s+\S*?\d([A-Za-z]+Kernel)(?:I((?:L[ib]\d+E)+))?E")
PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.bf16\.bf16 "
                     r"\{([^}]*)\}, (?:(%\w+), (%\w+), p, 1, 1, 0, ([01]);|\{([^}]*)\}, (%\w+), p, 1, 1, 0;)")
# What moves on: a label, a jump, the end.
JUMP = re.compile(r"\$?\w+:$|(@!?%\w+ )?bra|ret;")
EVENTS = (("fence", "wgmma.fence.sync.aligned;"), ("product", "wgmma.mma_async"),
          ("commit", "wgmma.commit_group.sync.aligned;"), ("copied", "cp.async.wait_group "),
          ("shown", "fence.proxy.async.shared::cta;"), ("barrier", "bar.sync"))
FOLLOWS = {"fence": {"product"}, "product": {"product", "commit"}, "copied": {"shown"}, "shown": {"barrier"}}


def kernels(text):
    """(name, lines) of each; the symbol where it is no kernel of block.h"""
    for part in re.split(r"(?=\.entry\s)", text)[1:]:
        name = part.split()[1]
        if match := ENTRY.match(part):
            values = ",".join(re.findall(r"L[ib](\d+)E", match[2] or ""))
            name = f"{match[1]}<{values}>" if values else match[1]
        yield name, [line.strip() for line in part.splitlines()]


def definitions(lines):
    """{register: [(operation, operands)]}"""
    found = {}
    for line in lines:
        if match := re.match(r"(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(%\w+)(?:\|%\w+)?, (.*);$", line):
            found.setdefault(match[2], []).append((match[1], match[3].split(", ")))
    return found


def hangs_on_shuffle(register, defined):
    seen = set()
    left = [register]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for operation, operands in defined.get(name, ()):
            if operation.startswith("shfl"):
                return True
            left += [operand for operand in operands if operand.startswith("%")]
    return False


def is_constant(register, defined):
    """Whether it is made of numbers, and of where something lies, alone."""
    ways = defined.get(register, ())
    if len(ways) != 1 or not ways[0][0].startswith(("mov.", "add.", "and.", "shr.", "cvt.", "or.", "mad.", "shl.")):
        return False
    return all(not operand.startswith("%") or is_constant(operand, defined) for operand in ways[0][1])


def is_descriptor(register, forms, defined):
    def only(name, operation):
        ways = defined.get(name, ())
        return ways[0][1] if len(ways) == 1 and ways[0][0] == operation else None

    further = only(register, "add.s64")  # on in the row of what is a descriptor
    formed = only(further[0] if further else register, "or.b64")
    if not formed or not all(part[1].isdigit() for part in (formed, further or formed)):
        return False
    if int(formed[1]) + (int(further[1]) if further else 0) not in forms:
        return False
    wide = only(formed[0], "cvt.u64.u32")
    shifted = wide and only(wide[0], "shr.u32")
    masked = shifted and shifted[1] == "4" and only(shifted[0], "and.b32")
    # The compiler knows of more bits that they are 0.
    return bool(masked) and int(masked[1], 0) | 0x3FF == 0x3FFFF


def problems_of_product(name, line, defined):
    match = PRODUCT.search(line)
    kinds = next((kinds for begin, kinds in PRODUCTS.items() if name.startswith(begin)), {})
    columns, turned = (int(match[1]), int(match[5] or 0)) if match else (0, 0)
    operands = kinds.get((columns, turned)) or kinds.get((None, turned))
    if not match or not operands:
        yield f"has a product of another form: {re.sub(r'{.*}', '{...}', line)}"
        return
    if len(set(match[2].split(", "))) != columns // 2:
        yield f"gives a product of {columns} columns {len(set(match[2].split(', ')))} registers"
    if match[6] and len(set(match[6].split(", "))) != 4:
        yield f"takes a from {match[6]}"
    for register, (operand, forms, is_own, is_fixed) in zip((match[3], match[4] or match[7]), operands, strict=True):
        if register is None:
            continue
        if not is_descriptor(register, forms, defined):
            yield f"has a descriptor of {operand} of another form: {defined.get(register)}"
        if is_own is not None and hangs_on_shuffle(register, defined) != is_own:
            yield f"takes for {operand} what {'all warpgroups share' if is_own else 'is of a warpgroup'}"
        if is_fixed is not None and is_constant(register, defined) != is_fixed:
            yield f"takes for {operand} what lies {'at several places' if is_fixed else 'at one place alone'}"


def problems_of_order(lines):
    last = None
    for number, line in enumerate(lines):
        event = next((name for name, begin in EVENTS if begin in line), None)
        if event is None:
            if last in FOLLOWS and JUMP.match(line):
                yield f"line {number}: jumps behind a {last}"
                last = None
            continue
        if last in FOLLOWS and event not in FOLLOWS[last]:
            yield f"line {number}: {event} behind {last}"
        if event in ("product", "commit") and last not in ("fence", "product"):
            yield f"line {number}: {event} without a fence"
        last = event


def problems(name, lines):
    products = [line for line in lines if "wgmma.mma_async" in line]
    if not name.startswith("Wgmma"):
        if products:
            yield "is no kernel of wgmma and has products"
        return
    if not products:
        yield "has no product"
    if not any("cp.async.wait_group" in line for line in lines):
        yield "waits for no copy"
    defined = definitions(lines)
    for line in products:
        yield from problems_of_product(name, line, defined)
    is_packed = name.startswith("WgmmaExpert") and not name.endswith(",16>")
    if any(bool(PRODUCT.search(line) and PRODUCT.search(line)[6]) != is_packed for line in products):
        yield "takes its weights from " + ("shared memory" if is_packed else "registers")
    yield from problems_of_order(lines)
    yield from sorted(Walk(lines).problems)


def main(folders):
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    with_wgmma = 0
    found = set()
    for path in (path for folder in folders for path in sorted(pathlib.Path(folder).glob("*.ptx"))):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^\.target sm_90a$", text, re.MULTILINE):
            continue
        for name, lines in kernels(text):
            with_wgmma += name.startswith("Wgmma")
            found |= {f"{name} {problem}" for problem in problems(name, lines)}
    if not with_wgmma:
        print("no kernel of wgmma is among them", file=sys.stderr)
        return 1
    for problem in sorted(found):
        print(problem, file=sys.stderr)
    print(f"{with_wgmma} kernels with wgmma")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
