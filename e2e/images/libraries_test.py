"""The libraries that scripts/images.d/root adds for a worker: python3 e2e/images/libraries_test.py

They include drivers of RDMA devices, which libibverbs loads by name, and a UCX that belongs to no package.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from programs import call, dynamic, output  # noqa: E402
from tiers import cannot_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT / "scripts" / "images.d" / "root"
DRIVERS = "usr/lib/x86_64-linux-gnu/libibverbs"
# Libraries of the node's driver, if there is a GPU.
OF_THE_NODE = {"libcuda.so.1", "libnvidia-ml.so.1"}


class RootCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-root-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def worker(self, tier, folder, how):
        worker = folder / "janus-worker"
        if not worker.exists():
            cannot_run(tier, f"no worker was compiled here: {how}")
        return worker

    def assert_complete(self, files):
        """Checks that every library that its files need is inside. Returns the number of needed names."""
        programs = [file for file in files.rglob("*") if file.is_file() and not file.is_symlink()]
        inside = {file.name for file in files.rglob("*.so*")}
        asked = {(file, name) for file in programs for name in dynamic(file, "NEEDED")}
        self.assertEqual([(file, name) for file, name in asked if name not in inside | OF_THE_NODE], [])
        self.assertGreater(len(asked), 100)


class DriversTest(RootCase):
    def test_every_driver_that_libibverbs_knows_of_is_there(self):
        worker = self.worker("images", ROOT / "build" / "dev" / "bin",
                             "cmake --preset dev && ninja -C build/dev janus-worker")
        files = self.folder / "files"
        output(MAKER, worker, files)
        names = {line.split()[1] for file in (files / "etc/libibverbs.d").glob("*.driver")
                 for line in file.read_text().splitlines() if line.startswith("driver ")}
        self.assertLessEqual({"mlx5", "irdma", "bnxt_re", "efa"}, names)
        self.assertEqual({file.name.removeprefix("lib").split("-rdmav")[0] for file in (files / DRIVERS).iterdir()},
                         names)
        self.assertTrue((files / "var/lib/dpkg/status.d/ibverbs-providers").exists())
        self.assert_complete(files)

    def test_a_gateway_has_none(self):
        gateway = ROOT / "build" / "dev" / "bin" / "janus-gateway"
        if not gateway.exists():
            cannot_run("images", "no gateway was compiled: cmake --preset dev && ninja -C build/dev janus-gateway")
        files = self.folder / "files"
        output(MAKER, gateway, files)
        self.assertFalse((files / "etc/libibverbs.d").exists())


class OwnUcxTest(RootCase):
    """A worker that is linked with the UCX of scripts/deps ucx."""

    def setUp(self):
        super().setUp()
        self.program = self.worker(
            "ucx",
            pathlib.Path(os.environ.get("JANUS_UCX_BIN_DIR", ROOT / "build" / "ucx" / "bin")).resolve(),
            "scripts/deps ucx && cmake --preset dev -B build/ucx -DCMAKE_PREFIX_PATH=$HOME/.cache/janus/ucx-1.22 && "
            "ninja -C build/ucx janus-worker")
        self.prefix = next(pathlib.Path(folder).parent for folder in dynamic(self.program, "RUNPATH")[0].split(":")
                           if (pathlib.Path(folder) / "libucp.so.0").exists())

    def test_it_lies_where_the_program_looks_for_it_with_its_transports_and_licence(self):
        files = self.folder / "files"
        output(MAKER, self.program, files)
        libraries = files / self.prefix.relative_to("/") / "lib"
        self.assertLessEqual({"libucp.so.0", "libucs.so.0", "libuct.so.0", "libucm.so.0"},
                             {file.name for file in libraries.iterdir()})
        self.assertLessEqual({"libuct_cuda.so.0", "libuct_cma.so.0", "libucm_cuda.so.0"},
                             {file.name for file in (libraries / "ucx").iterdir()})
        self.assertEqual((files / "usr/share/doc/ucx/copyright").read_text(), (self.prefix / "LICENSE").read_text())
        self.assertEqual(list((files / "usr/lib").rglob("libuc[mpst]*")), [], "Debian's is not there beside it")
        self.assert_complete(files)
        if os.geteuid() == 0:
            self.assertRegex(output("chroot", files, "/usr/bin/janus-worker", "--version"), r"(?m)^janus-worker \d")

    def test_without_its_licence_it_goes_nowhere(self):
        bare = self.folder / "bare"
        (bare / "lib").mkdir(parents=True)
        for file in (self.prefix / "lib").glob("*.so.0"):
            shutil.copy(file, bare / "lib")
        program = self.folder / "janus-worker"
        shutil.copy(self.program, program)
        # Its libraries, under another prefix.
        done = call(MAKER, program, self.folder / "files",
                    environment={**os.environ, "LD_LIBRARY_PATH": str(bare / "lib")})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"no {bare}/LICENSE", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
