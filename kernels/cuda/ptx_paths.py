"""Registers of wgmma on every way through a kernel's PTX.

A product's registers, sums and an operand, are the tensor cores' from its wgmma.fence until a wait lets its group
through (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). What waits have let through depends on the way:
each block of instructions is gone through with what is under way where it begins, once for each such state that a
jump brings, until none is new. Predicates are not followed, so ways that no thread goes must hold too.
"""

import re
from typing import NamedTuple

REGISTER = re.compile(r"%[a-z]+\d+")
PRODUCT = re.compile(r"wgmma\.mma_async\S* \{([^}]*)\}, (?:\{([^}]*)\}, )?")
LABEL = re.compile(r"(\$?\w+):$")
BRANCH = re.compile(r"(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$?\w+);")
END = re.compile(r"(?:ret|exit|trap);")
INSTRUCTION = re.compile(r"(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+(.*);$")
# What writes no register.
WRITES_NONE = ("st.", "red.", "cp.", "bar.", "fence.", "membar.", "prefetch", "griddepcontrol", "mbarrier.arrive")
# Under way at once: a loop without a wait has no end to them.
MOST_GROUPS = 4
# Of all blocks together; the kernels here have some 2,000.
MOST_STATES = 50000


class Product(NamedTuple):
    sums: tuple
    operand: frozenset  # registers of a


class Use(NamedTuple):
    reads: frozenset
    writes: frozenset


class State(NamedTuple):
    """written: registers since the fence, None where none is open; since the last commit, and of groups under way,
    oldest first: line numbers of products."""

    written: frozenset | None = None
    begun: tuple = ()
    groups: tuple = ()


class Block(NamedTuple):
    events: list  # (line number, event)
    next: list  # numbers of blocks that may follow


def products_of(lines):
    """{line number: Product}"""
    found = {}
    for number, line in enumerate(lines):
        if match := PRODUCT.search(line):
            found[number] = Product(tuple(match[1].split(", ")), frozenset((match[2] or "").split(", ")) - {""})
    return found


def use_of(line, of_products):
    match = INSTRUCTION.match(line)
    if not match:
        return None
    operation, operands = match.groups()
    target = ""
    if not operation.startswith(WRITES_NONE):
        target = re.match(r"\{[^}]*\}|[^,]*", operands)[0]
    writes = of_products.intersection(REGISTER.findall(target))
    reads = of_products.intersection(REGISTER.findall(operands[len(target):]))
    return Use(reads, writes) if reads or writes else None


def event_of(number, line, products, of_products):
    if number in products:
        return products[number]
    if "wgmma.fence" in line:
        return "fence"
    if "wgmma.commit_group" in line:
        return "commit"
    if match := re.search(r"wgmma\.wait_group\S* (\d+);", line):
        return int(match[1])
    if END.search(line):
        return "end"
    return use_of(line, of_products) if "%" in line else None


def blocks_of(lines, products):
    """The blocks of a kernel, the first first."""
    of_products = frozenset().union(*(set(product.sums) | product.operand for product in products.values()))
    starts = {}  # label: block
    parts = [[]]  # (number, line)
    for number, line in enumerate(lines):
        if match := LABEL.match(line):
            if parts[-1]:
                parts.append([])
            starts[match[1]] = len(parts) - 1
        else:
            parts[-1].append((number, line))
            if BRANCH.search(line) or END.match(line):
                parts.append([])
    blocks = []
    for index, part in enumerate(parts):
        events = []
        following = [index + 1] if index + 1 < len(parts) else []
        for number, line in part:
            if match := BRANCH.search(line):
                following = [starts[match[2]]] + (following if match[1] else [])
            elif (event := event_of(number, line, products, of_products)) is not None:
                events.append((number, event))
                if event == "end" and END.match(line):
                    following = []
        blocks.append(Block(events, following))
    return blocks


class Walk:
    """problems: what was found."""

    def __init__(self, lines):
        self.products = products_of(lines)
        self.problems = set()
        self.held = {}  # by begun and groups: registers of sums and of operands
        blocks = blocks_of(lines, self.products)
        seen = set()
        left = [(0, State())]
        while left:
            at, state = left.pop()
            if (at, state) in seen:
                continue
            seen.add((at, state))
            if len(seen) > MOST_STATES:
                self.problems.add(f"has more than {MOST_STATES} ways to come to a block")
                break
            state = self.through(blocks[at], state)
            if state is not None:
                left += [(index, state) for index in blocks[at].next]

    def registers_under_way(self, state):
        key = (state.begun, state.groups)
        if key not in self.held:
            numbers = [number for group in (*state.groups, state.begun) for number in group]
            sums = frozenset(register for number in numbers for register in self.products[number].sums)
            operands = frozenset().union(*(self.products[number].operand for number in numbers))
            self.held[key] = (sums, operands)
        return self.held[key]

    def through(self, block, state):
        """The state behind it; None where nothing is."""
        for number, event in block.events:
            if isinstance(event, Use):
                if state.begun or state.groups:
                    self.use(number, event, state)
                if state.written is not None and event.writes:
                    state = state._replace(written=state.written | event.writes)
            elif isinstance(event, Product):
                self.begin(number, event, state)
                state = state._replace(begun=(*state.begun, number))
            elif event == "fence":
                state = state._replace(written=frozenset())
            elif event == "commit":
                state = state._replace(written=None, begun=(), groups=(*state.groups, state.begun))
                if len(state.groups) > MOST_GROUPS:
                    self.problems.add(f"line {number}: more than {MOST_GROUPS} groups are under way")
                    return None
            elif event == "end":
                if state.begun or state.groups:
                    self.problems.add(f"line {number}: ends before its products")
                return None
            else:
                state = state._replace(groups=state.groups[max(len(state.groups) - event, 0):])
        if state.written is not None or state.begun:
            self.problems.add(f"line {block.events[-1][0]}: jumps between a fence and its commit")
            return None
        return state

    def use(self, number, use, state):
        sums, operands = self.registers_under_way(state)
        if use.writes & (sums | operands):
            self.tell(number, "writes", use.writes & (sums | operands), "which a product has")
        if use.reads & sums:
            self.tell(number, "reads", use.reads & sums, "of which a product is under way")

    def begin(self, number, product, state):
        sums, operands = self.registers_under_way(state)
        own = frozenset(product.sums)
        if state.written is None:
            self.problems.add(f"line {number}: a product without a fence")
        elif state.written & (own | product.operand):
            self.tell(number, "a product takes", state.written & (own | product.operand),
                      "written behind its fence")
        if product.operand & sums or own & operands:
            self.tell(number, "a product takes", product.operand & sums | own & operands, "which another has")
        begun = frozenset().union(*(self.products[other].operand for other in state.begun))
        if product.operand & begun:
            self.tell(number, "two products take", product.operand & begun, "behind one fence")
        if own & sums and not any(self.products[other].sums == product.sums
                                  for group in (*state.groups, state.begun) for other in group):
            self.tell(number, "a product takes", own & sums, "sums of a product of another form")

    def tell(self, number, what, registers, why):
        self.problems.add(f"line {number}: {what} {', '.join(sorted(registers)[:4])}, {why}")
