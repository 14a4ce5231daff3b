#!/usr/bin/env python3
"""What check_wgmma.py says of PTX that is right and of PTX that is not."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "kernels" / "cuda"))
import check_wgmma  # noqa: E402
import ptx_paths  # noqa: E402

FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
A = "%r1, %r2, %r3, %r4"
B = "%r5, %r6, %r7, %r8"


def wait(pending):
    return f"wgmma.wait_group.sync.aligned {pending};"


def product(operand="%rd1", sums="%f1, %f2, %f3, %f4", columns=8):
    """Of an operand in shared memory, or of four registers."""
    first = operand if operand.startswith("%rd") else f"{{{operand}}}"
    transposed = "1, 1, 0, 0" if operand.startswith("%rd") else "1, 1, 0"
    return (f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{sums}}}, {first}, %rd2, p, "
            f"{transposed};")


def group(*operands):
    return [FENCE, *(product(operand) for operand in operands or ("%rd1",)), COMMIT]


def problems(*lines):
    return sorted(ptx_paths.Walk([*lines, "ret;"]).problems)


class Registers(unittest.TestCase):
    def holds(self, *lines):
        self.assertEqual(problems(*lines), [])

    def fails(self, what, *lines):
        found = problems(*lines)
        self.assertEqual(len(found), 1, found)
        self.assertIn(what, found[0])

    def test_sums_are_read_behind_their_wait(self):
        self.holds("mov.f32 %f1, 0f00000000;", *group(), wait(0), "add.f32 %f9, %f1, %f2;")
        self.holds(*group(), *group(), wait(0), "st.global.f32 [%rd9], %f4;")
        for read in ("add.f32 %f9, %f9, %f2;", "mov.b32 %r9, %f1;", "st.shared.v2.f32 [%r9], {%f9, %f3};",
                     "@%p1 mov.f32 %f9, %f4;", "shfl.sync.bfly.b32 %r9|%p1, %f1, 1, 31, -1;"):
            self.fails("reads %f", *group(), read, wait(0))
            self.fails("reads %f", *group(), wait(1), read, wait(0))
            self.fails("reads %f", FENCE, product(), read, COMMIT, wait(0))
        self.fails("reads %f1", *group(), *group(), wait(1), "mov.f32 %f9, %f1;", wait(0))

    def test_registers_of_a_product_are_written_before_its_fence_or_behind_its_wait(self):
        for register in ("%r3", "%f2"):
            write = f"mov.b32 {register}, 0;"
            self.holds(write, *group(A), wait(0), write)
            self.fails(f"takes {register}, written behind its fence", FENCE, write, product(A), COMMIT, wait(0))
            self.fails(f"writes {register}", *group(A), write, wait(0))
            self.fails(f"writes {register}", *group(A), wait(1), write, wait(0))
            self.fails(f"writes {register}", FENCE, product(A), write, COMMIT, wait(0))
            self.holds(*group(A), wait(0), FENCE, product(B), COMMIT, wait(0), write)
        self.fails("writes %r2", *group(A), "ld.shared.v2.b32 {%r9, %r2}, [%r10];", wait(0))
        self.fails("writes %r2", *group(A), "@!%p1 mov.b32 %r2, 0;", wait(0))
        self.fails("takes %r4, written", FENCE, product(B), "mov.b32 %r4, 0;", product(A), COMMIT, wait(0))
        # An operand may be read at any time, and of two groups the first is let through by the second's wait.
        self.holds(*group(A), "mov.b32 %r9, %r1;", "st.shared.b32 [%r2], %r9;", wait(0))
        self.holds(*group(A), *group(B), wait(1), "mov.b32 %r1, 0;", wait(0))
        self.fails("writes %r5", *group(A), *group(B), wait(1), "mov.b32 %r5, 0;", wait(0))

    def test_every_way_is_gone(self):
        begin = [*group(A), "@%p1 bra $L_1;"]
        self.holds(*begin, wait(0), "bra.uni $L_2;", "$L_1:", wait(0), "$L_2:", "mov.b32 %r1, %f1;")
        self.fails("writes %r1", *begin, wait(0), "$L_1:", "mov.b32 %r1, 0;", wait(0))
        self.fails("reads %f1", *begin, wait(0), "bra.uni $L_2;", "$L_1:", "mov.b32 %r9, %f1;", wait(0), "$L_2:")
        self.fails("reads %f1", *begin, "mov.b32 %r9, %f1;", "$L_1:", wait(0))
        self.holds(*group(), "bra.uni $L_1;", "$L_2:", "mov.b32 %r9, %f1;", "$L_1:", wait(0))  # no way to $L_2
        # What is begun in a turn and what the next does with it.
        turn = ["$L_1:", "mov.b32 %r1, 0;", *group(A), "mov.b32 %r5, 0;", *group(B)]
        self.holds(*turn[:5], wait(0), "@%p1 bra $L_1;")
        loop = [*turn[:5], wait(0), *turn[5:], wait(1), "@%p1 bra $L_1;"]
        self.holds(*loop, wait(0))
        at = loop.index(wait(0))
        loop[at] = wait(1)
        self.holds(*loop, wait(0))
        loop[at] = wait(2)
        self.fails("writes %r5", *loop, wait(0))
        self.fails("more than 4 groups", "$L_1:", *group(), "@%p1 bra $L_1;", wait(0))

    def test_a_group_has_a_fence_and_an_end(self):
        self.fails("ends before", *group())
        self.fails("ends before", *group(), "@%p1 bra $L_1;", wait(0), "$L_1:")
        self.fails("jumps between", FENCE, "@%p1 bra $L_1;", product(), COMMIT, "$L_1:", wait(0))
        self.fails("jumps between", "$L_1:", FENCE, product(), "@%p1 bra $L_1;", COMMIT, wait(0))
        self.fails("without a fence", product(), COMMIT, wait(0))
        self.fails("without a fence", *group(), product(), COMMIT, wait(0))

    def test_products_share_sums_of_one_form_alone(self):
        self.holds(FENCE, product(A), product(B), COMMIT, wait(0))
        self.fails("two products take %r1", FENCE, product(A), product("%r1, %r6, %r7, %r8"), COMMIT, wait(0))
        self.fails("another form", FENCE, product(), product(sums="%f1, %f2, %f4, %f3"), COMMIT, wait(0))
        self.fails("which another has", FENCE, product(), product("%f1, %r6, %r7, %r8", "%f5, %f6, %f7, %f8"),
                   COMMIT, wait(0))


class Operands(unittest.TestCase):
    def test_attention_scores_queries_that_lie_at_one_place_by_keys_in_either_unit(self):
        def lines(first, second, pending=0):
            sums = ", ".join(f"%f{i}" for i in range(32))
            return [
                "mov.u32 %r1, shared_memory;", "add.s32 %r2, %r1, 147456;", "and.b32 %r3, %r2, 261120;",
                "shr.u32 %r4, %r3, 4;", "cvt.u64.u32 %rd1, %r4;", "or.b64 %rd2, %rd1, 4611686293305360384;",
                "mov.u32 %r10, 0;", "$L_1:", "and.b32 %r11, %r10, 1;", "mad.lo.s32 %r12, %r11, 73728, %r1;",
                "and.b32 %r13, %r12, 261120;", "shr.u32 %r14, %r13, 4;", "cvt.u64.u32 %rd3, %r14;",
                "or.b64 %rd4, %rd3, 4611686293305360384;", FENCE,
                f"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{sums}}}, {first}, {second}, p, 1, 1, 0, 0;",
                COMMIT, wait(pending), "add.s32 %r10, %r10, 1;", "@%p1 bra $L_1;", "cp.async.wait_group 0;",
                "fence.proxy.async.shared::cta;", "bar.sync 0;", "ret;"]

        name = "WgmmaAbsorbedKernel<16>"
        self.assertEqual(list(check_wgmma.problems(name, lines("%rd2", "%rd4"))), [])
        self.assertEqual(list(check_wgmma.problems(name, lines("%rd4", "%rd2"))),
                         ["takes for a what lies at several places", "takes for b what lies at one place alone"])
        self.assertEqual(list(check_wgmma.problems(name, lines("%rd2", "%rd4", 1))),
                         ["line 23: ends before its products"])


if __name__ == "__main__":
    unittest.main()
