"""The report of e2e/run.py, and what it says is missing on a machine: python3 e2e/cluster/run_test.py

Its suites have a few lines each; no cluster is needed.
"""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "support"))

import made_images  # noqa: E402
import needs  # noqa: E402
from limits import limit  # noqa: E402

RUN = HERE.parent / "run.py"
HEAD = f"import os, sys, unittest\nsys.path.insert(0, {str(HERE.parent / 'support')!r})\nfrom tiers import cannot_run\n"
GOOD = "class Good(unittest.TestCase):\n    def test_it(self): pass\n"
BAD = """class Bad(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self):
        for i in range(3):
            with self.subTest(i=i): self.assertEqual(i, 0)
"""
KILLED = """class Killed(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os.kill(os.getpid(), 9)
    def test_c(self): pass
"""
HALF_UP = """class HalfUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no disk")
    def test_it(self): pass
"""
NO_NODES = """class NoNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cannot_run("node", "no cgroups")
    def test_one(self): pass
    def test_two(self): pass
"""


class FolderCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="janus-run-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class RunTest(FolderCase):
    def run_suites(self, *texts, code=0, **variables):
        """Runs suites with these texts. Returns their results; the output is kept."""
        suites = [self.folder / f"suite{i}_test.py" for i in range(len(texts))]
        for suite, text in zip(suites, texts):
            suite.write_text(HEAD + text)
        environment = {name: value for name, value in os.environ.items() if name != "JANUS_REQUIRE"}
        report = self.folder / "report.json"
        done = subprocess.run([sys.executable, "-B", RUN, "--json", report, "2", *suites], capture_output=True,
                              text=True, check=False, env={**environment, **variables})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stdout
        return json.loads(report.read_text())

    def test_all_suites_run_whichever_fail_and_the_list_has_each_failed_test(self):
        results = self.run_suites(BAD, KILLED, HALF_UP, "import nothing_of_that_name\n", "", GOOD, code=1,
                                  JANUS_SEED="7")
        self.assertEqual([one["status"] for one in results], ["failed"] * 5 + ["passed"])
        self.assertEqual([[failure["test"] for failure in one["failures"]] for one in results],
                         [["Bad.test_bad"], ["Killed.test_b"], ["HalfUp"], [""], [""], []])
        self.assertEqual([(one["passed"], one["failed"], one["skipped"]) for one in results],
                         [(1, 1, 0), (1, 1, 0), (0, 1, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0)])
        self.assertIn("it ended with -9", results[1]["reason"])
        self.assertIn("no disk", results[2]["reason"])
        self.assertIn("it has no tests", results[4]["reason"])
        end = self.said.partition("=== suites")[2]
        for one in results:
            self.assertIn(f"{one['suite']}: ", end)
            for failure in one["failures"]:
                self.assertIn(failure["repeat"], end)

    def test_the_command_that_is_told_repeats_the_failure(self):
        failure, = self.run_suites(BAD + "unittest.main() if __name__ == '__main__' else None\n", code=1,
                                   JANUS_SEED="7")[0]["failures"]
        self.assertIn("JANUS_SEED=7", failure["repeat"])
        done = subprocess.run(failure["repeat"], shell=True, cwd=HERE.parents[1], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Ran 1 test", done.stderr)
        self.assertIn("AssertionError: 2 != 0", done.stderr)

    def test_what_cannot_run_is_skipped_with_its_reason(self):
        skipped, passed = self.run_suites(NO_NODES, NO_NODES + GOOD)
        self.assertEqual((skipped["status"], skipped["skipped"], skipped["reason"]), ("skipped", 2, "no cgroups"))
        self.assertEqual((passed["status"], passed["passed"], passed["skipped"]), ("passed", 1, 2))
        self.assertIn("no cgroups", self.said.partition("=== suites")[2])

    def test_what_is_required_may_not_be_skipped(self):
        for required in ("node", "images", "build images"):  # images need nodes
            result, = self.run_suites(NO_NODES, code=1, JANUS_REQUIRE=required)
            self.assertEqual((result["status"], result["failures"][0]["test"]), ("failed", "NoNodes"))
            self.assertIn("no cgroups", result["reason"])
        for required in ("", "api", "cuda"):
            self.assertEqual(self.run_suites(NO_NODES, JANUS_REQUIRE=required)[0]["status"], "skipped")

    def test_a_tier_that_is_none_is_refused(self):
        done = subprocess.run([sys.executable, "-B", RUN, "1", "x"], capture_output=True, text=True, check=False,
                              env={**os.environ, "JANUS_REQUIRE": "nodes"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("'nodes' is no tier", done.stderr)


class NeedsTest(FolderCase):
    def lacking(self, *programs, go=None):
        """The report for a machine that lacks these programs; `go`: the version that its Go reports."""
        for program in (one for tier in needs.PROGRAMS.values() for one in tier if "/" not in one):
            if program not in programs and shutil.which(program):
                (self.folder / program).symlink_to(shutil.which(program))
        if go is not None:
            (self.folder / "go").write_text(f"#!/bin/sh\necho {go}\n")
            (self.folder / "go").chmod(0o755 | stat.S_IXUSR)
        done = subprocess.run([sys.executable, "-B", HERE / "needs.py", "api"], capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": str(self.folder)})
        for file in self.folder.iterdir():
            file.unlink()
        return done.stderr.strip()

    def test_missing_programs_are_named_with_their_packages_in_one_line(self):
        said = self.lacking("curl", "ip", go="go99.0")
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("not installed: curl, ip;", said)
        self.assertIn("(Debian packages curl iproute2)", said)

    def test_a_go_that_is_missing_or_too_old_is_told_with_the_version_that_is_wanted(self):
        wanted = needs.wanted_go()
        self.assertIn(f"Go is not installed; install Go {wanted} or newer", self.lacking())
        self.assertIn(f"Go is 1.9.7; install Go {wanted} or newer", self.lacking(go="go1.9.7"))
        self.assertNotIn("Go is", self.lacking(go=f"go{wanted}"))
        self.assertNotIn("Go is", self.lacking(go="go1.100"))


# The modules are a folder with the files that are collected from them. A build writes one line, and adds its name to
# `built`.
GO = """#!/bin/bash
case $1 in
  env) echo go99.0 ;;
  list) echo "$GO_MODULES" ;;
  build)
    while [[ $1 != -o ]]; do shift; done
    echo "$PWD $3" >"$2"
    basename "$2" .new >>"$GO_BUILT" ;;
esac
"""


class BuildTest(FolderCase):
    """e2e/build/build with a Go that compiles nothing."""

    def setUp(self):
        super().setUp()
        self.tree = self.folder / "e2e"
        for room in ("build", "cluster"):
            shutil.copytree(HERE.parent / room, self.tree / room)
        programs = self.folder / "bin"
        programs.mkdir()
        for name, text in (("go", GO), ("promtool", "#!/bin/sh\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        modules = self.folder / "modules"
        for path in ("kustomize/stage/node/fast/node-initialize.yaml", "kustomize/stage/pod/fast/pod-ready.yaml",
                     "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
                     *(f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
                       for kind in ("servicemonitors", "podmonitors", "prometheusrules"))):
            (modules / path).parent.mkdir(parents=True, exist_ok=True)
            (modules / path).write_text("a: b\n")
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "GO_MODULES": str(modules),
                            "GO_BUILT": str(self.folder / "built"), "XDG_CACHE_HOME": str(self.folder / "cache")}

    def build(self, tier="node"):
        """(the printed folder, what was compiled for it)."""
        book = self.folder / "built"
        book.write_text("")
        done = subprocess.run([self.tree / "build" / "build", tier], capture_output=True, text=True, check=False,
                              env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(done.stdout.strip()), book.read_text().split()

    def change(self, path):
        with open(self.tree / path, "a", encoding="utf-8") as file:
            file.write("// another\n")

    def test_a_program_is_built_once_for_each_pinned_version_of_its_own(self):
        api, built = self.build("api")
        self.assertEqual(sorted(built), ["etcd", "helm", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
                                         "kubectl", "kwok", "queries"])
        node, built = self.build()
        self.assertEqual(sorted(built), ["coredns", "crane", "kube-proxy", "kubelet"])
        self.assertLess({file.name for file in api.iterdir()}, {file.name for file in node.iterdir()})
        self.assertEqual(self.build(), (node, []))
        before = (self.tree / "build" / "helm" / "go.sum").read_text()
        self.change("build/helm/go.sum")
        other, built = self.build()
        self.assertEqual(built, ["helm"])
        self.assertNotEqual((other / "helm").resolve(), (node / "helm").resolve())
        self.assertEqual((other / "etcd").resolve(), (node / "etcd").resolve())
        self.change("build/prometheus/queries/main.go")
        self.assertEqual(self.build()[1], ["queries"])
        (self.tree / "build" / "helm" / "go.sum").write_text(before)
        self.assertEqual(self.build()[1], [], "the earlier version had been kept")


class MadeImagesTest(FolderCase):
    """With programs that are text, and a maker that counts its calls."""

    def setUp(self):
        super().setUp()
        self.made = 0
        self.addCleanup(setattr, made_images, "make", made_images.make)
        self.addCleanup(setattr, made_images, "CACHE", made_images.CACHE)
        made_images.make, made_images.CACHE = self.make, self.folder / "cache"
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        self.write("1")

    def write(self, text):
        for name in ("janus-operator", "janus-gateway", "janus-worker"):
            (self.programs / name).write_text(text)

    def make(self, _programs, _registry, folder, _targets):
        self.made += 1
        (folder / "names").write_text(str(self.made))

    def get(self, registry="a"):
        return made_images.made_images(self.programs, registry)[0]

    def test_the_same_programs_are_made_into_images_once(self):
        self.assertEqual([self.get(), self.get()], [["1"], ["1"]])
        (self.programs / "janus-worker").write_text("2")
        self.assertEqual([self.get(), self.get(), self.get("b")], [["2"], ["2"], ["3"]])

    def test_the_last_three_used_are_kept(self):
        for text in "123":
            self.write(text)
            self.get()
        self.write("1")
        self.assertEqual(self.get(), ["1"])
        self.write("4")
        self.get()
        self.assertEqual(self.made, 4)
        self.write("1")
        self.assertEqual(self.get(), ["1"])
        self.write("2")
        self.assertEqual(self.get(), ["5"], "the one that was not used for longest had gone")
        self.assertEqual(len([path for path in next((self.folder / "cache").iterdir()).iterdir() if path.is_dir()]), 3)


class TurnTest(FolderCase):
    # Takes its turn, and ends after a line of standard input.
    SUITE = HEAD + """
from cluster_case import ClusterCase
class Suite(ClusterCase):
    environment = {"JANUS_CLUSTER": "suite"}
Suite.take_turn()
print("its turn", flush=True)
sys.stdin.readline()
"""

    def start(self):
        run = subprocess.Popen([sys.executable, "-B", "-c", self.SUITE], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**os.environ, "XDG_STATE_HOME": str(self.folder)})
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def test_a_suite_waits_for_another_run_of_it(self):
        first = self.start()
        self.assertEqual(first.stdout.readline(), "its turn\n")
        second = self.start()
        self.assertIn("waits for another run of this suite", second.stdout.readline())
        first.kill()  # then another may remove its cluster
        self.assertEqual(second.stdout.readline(), "its turn\n")


class LimitsTest(unittest.TestCase):
    def test_limits_are_stretched_as_is_said(self):
        said = {name: os.environ.pop(name, None) for name in ("JANUS_TIME_SCALE", "CI")}
        try:
            self.assertEqual(limit(300), 300)
            os.environ["CI"] = "true"
            self.assertEqual(limit(300), 3000)
            os.environ["JANUS_TIME_SCALE"] = "2.5"
            self.assertEqual(limit(3), 8)
        finally:
            for name, value in said.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


if __name__ == "__main__":
    unittest.main(verbosity=2)
