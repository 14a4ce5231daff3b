"""The image of workers on NVIDIA GPUs: python3 e2e/images/worker_cuda_test.py

It is built from a janus-worker with CUDA that was compiled before (find_cuda_programs), by the stage that makes the
released image. There is no GPU here. A stub of the driver's library, which finds no GPU, is put into the container in
the place where NVIDIA's runtime puts the real one.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cuda_programs import find_cuda_programs  # noqa: E402
from programs import call, dynamic, output  # noqa: E402
from tiers import cannot_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# The libraries that the driver's library is linked with (libcuda.so.535.261.03 of Debian's libcuda1, by readelf).
DRIVERS_NEEDS = ("libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1")
# A stub for a driver of CUDA 13.0 on a machine without a GPU, with what the runtime calls in that case.
DRIVER = """
#include <string.h>
static int NoDevice(void) { return 100; }
int cuInit(unsigned flags) { (void)flags; return 100; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long flags, int* status) {
  (void)version; (void)flags;
  *out = strcmp(name, "cuInit") == 0                ? (void*)cuInit
         : strcmp(name, "cuDriverGetVersion") == 0  ? (void*)cuDriverGetVersion
         : strcmp(name, "cuGetProcAddress") == 0    ? (void*)cuGetProcAddress_v2
                                                    : (void*)NoDevice;
  if (status != NULL) *status = 0;
  return 0;
}
int cuGetProcAddress(const char* name, void** out, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
"""


class BuildahCase(unittest.TestCase):
    """Has a separate store, in a folder that is deleted with the class."""

    @classmethod
    def setUpClass(cls):
        if shutil.which("buildah") is None:
            cannot_run("images", "buildah is not installed; scripts/deps images installs it")
        if os.geteuid() != 0:
            cannot_run("images", "only root can look into an image here")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-cuda-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        store = cls.folder / "storage.conf"
        store.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{cls.folder}/images"\n'
                         f'runroot = "{cls.folder}/images-run"\n')
        cls.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(store), "BUILDAH_ISOLATION": "chroot"}

    def build(self, programs, *words):
        return call(ROOT / "scripts" / "images", "--programs", programs, *words, "worker-cuda",
                    environment=self.environment)


class RefusalsTest(BuildahCase):
    def test_a_worker_without_cuda_makes_no_such_image(self):
        shutil.copy("/bin/true", self.folder / "janus-worker")
        done = self.build(self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder}/janus-worker was built without CUDA", done.stderr)
        self.assertIn("cmake --preset dev-cuda", done.stderr)

    def test_what_is_compiled_already_takes_no_architectures(self):
        done = self.build(self.folder, "--cuda-architectures", "80")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--cuda-architectures", done.stderr)

    def test_what_is_compiled_already_takes_no_ucx(self):
        done = self.build(self.folder, "--ucx", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the UCX that they were linked with", done.stderr)

    def test_a_folder_without_a_ucx_is_none(self):
        done = call(ROOT / "scripts" / "images", "--ucx", self.folder, "worker-cuda", environment=self.environment)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"no {self.folder}/include/ucp/api/ucp.h", done.stderr)


class WorkerCudaImageTest(BuildahCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs, why_none = find_cuda_programs()
        if cls.programs is None:
            cannot_run("cuda", why_none)
        built = output(ROOT / "scripts" / "images", "--programs", cls.programs, "worker-cuda",
                       environment=cls.environment)
        cls.image = built.split()[-1]

    def container(self):
        """The name of a container of the image, and the folder of its files."""
        name = self.buildah("from", "--pull-never", self.image).strip()
        self.addCleanup(self.buildah, "rm", name)
        return name, pathlib.Path(self.buildah("mount", name).strip())

    def buildah(self, *words):
        return output("buildah", *words, environment=self.environment)

    def run_worker(self, container, *words):
        return call("buildah", "run", container, "--", "/usr/bin/janus-worker", *words, environment=self.environment)

    def run_on_cuda(self, container):
        return self.run_worker(container, "--role=attention", "--model=/models/demo", "--listen=unix:/tmp/worker",
                               "--service-uid=1", "--device=cuda")

    def test_it_says_what_it_is_and_leaves_the_choice_of_gpus_to_who_gives_them(self):
        config = json.loads(self.buildah("inspect", "--type", "image", self.image))["OCIv1"]["config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/janus-worker"])
        self.assertEqual(config["Labels"]["org.opencontainers.image.title"], "janus-worker")
        self.assertEqual(config["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")
        variables = dict(one.split("=", 1) for one in config["Env"])
        self.assertEqual(variables.pop("NVIDIA_DRIVER_CAPABILITIES"), "compute,utility")
        # NVIDIA_VISIBLE_DEVICES belongs to the device plugin. With CUDA_VERSION set, the runtime would take all GPUs.
        self.assertLessEqual(set(variables), {"PATH"})

    def test_all_that_it_is_linked_with_lies_inside_but_for_the_driver(self):
        _, files = self.container()
        programs = [file for file in files.rglob("*") if file.is_file() and not file.is_symlink()]
        inside = {file.name for folder in (LIBRARIES, "usr/lib64") for file in (files / folder).glob("*.so*")}
        asked = [(file, name) for file in programs for name in dynamic(file, "NEEDED")]
        self.assertGreater(len(asked), 100)
        missing = [(file, name) for file, name in asked if name not in inside
                   and not any((files / folder.lstrip("/") / name).exists() for folder in dynamic(file, "RUNPATH"))]
        self.assertEqual(missing, [])
        self.assertIn(b"libcuda.so.1\0", (files / "usr/bin/janus-worker").read_bytes(), "loaded as it starts")
        self.assertLessEqual(set(DRIVERS_NEEDS), inside)
        self.assertEqual([file for file in programs if "libcuda" in file.name or "nvidia" in file.name], [],
                         "the driver's own come from the node")
        for file in ("etc/debian_version", "etc/ld.so.conf", "etc/ld.so.cache", "usr/share/doc/cuda-runtime/copyright",
                     "var/lib/dpkg/status.d/libc6", "models/demo/model.safetensors"):
            self.assertTrue((files / file).exists(), file)
        self.assertFalse((files / "bin/sh").exists())

    def test_the_same_program_makes_the_same_files(self):
        _, files = self.container()
        again = self.folder / "again"
        output(ROOT / "scripts" / "images.d" / "root-cuda", self.programs / "janus-worker", again)
        said = call("diff", "-rq", "--no-dereference", again, files).stdout
        self.assertEqual([line for line in said.splitlines() if line.startswith("Only in " + str(again))
                          or not line.startswith("Only in ")], [], said)

    def test_its_program_runs_there_as_nobody(self):
        container, _ = self.container()
        done = self.run_worker(container, "--version")
        self.assertRegex(done.stdout, r"^janus-worker \d", done.stderr)
        self.assertIn("cuda needs a build with CUDA", self.run_worker(container, "--help").stdout)

    def test_without_a_driver_it_says_so_and_ends(self):
        container, _ = self.container()
        done = self.run_on_cuda(container)
        self.assertIn("--device cuda: no GPU that can be used: cudaErrorInsufficientDriver", done.stderr)
        self.assertIn("resources.limits of nvidia.com/gpu", done.stderr)
        self.assertEqual(done.returncode, 2)

    def put_driver(self, folder):
        """Puts the stub where a node's driver of this version would be."""
        source = self.folder / "driver.c"
        source.write_text(DRIVER)
        folder.mkdir(parents=True, exist_ok=True)
        # glibc 2.34 and later keep these names only for programs linked before. -l does not link them, so they are
        # named here.
        old = [f"/{LIBRARIES}/{name}" for name in DRIVERS_NEEDS]
        file = folder / "libcuda.so.580.65.06"
        output("cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,--no-as-needed", source, *old, "-o", file)
        self.assertEqual(sorted(dynamic(file, "NEEDED")), sorted(DRIVERS_NEEDS))
        (folder / "libcuda.so.1").symlink_to(file.name)

    def assert_finds_no_gpu(self, container):
        done = self.run_on_cuda(container)
        self.assertIn("no GPU that can be used: cudaErrorNoDevice, no CUDA-capable device is detected", done.stderr)
        self.assertEqual(done.returncode, 2)

    def test_a_driver_in_debians_folder_is_found(self):
        container, files = self.container()
        self.put_driver(files / LIBRARIES)
        self.assert_finds_no_gpu(container)

    def test_a_driver_elsewhere_is_found_by_the_cache_that_the_runtime_writes(self):
        container, files = self.container()
        self.put_driver(files / "usr/lib64")
        self.assertIn("cudaErrorInsufficientDriver", self.run_on_cuda(container).stderr)
        # Like the runtime's hook update-ldcache.
        (files / "etc/ld.so.conf.d/00-nvcr-1.conf").write_text("/usr/lib64\n")
        output("ldconfig", "-r", files, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache")
        self.assert_finds_no_gpu(container)


if __name__ == "__main__":
    unittest.main(verbosity=2)
