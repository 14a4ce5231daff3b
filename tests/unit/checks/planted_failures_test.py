"""scripts/test over a small tree with a planted failure in each of the phases lint, build, tests and cluster: one run reports
them all, with commands that repeat them."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# What the tree shares with this one: the gate itself, and what runs suites of e2e/.
SHARED = ["scripts/test", "scripts/env.sh", "e2e/run.py", "e2e/support/run_suite.py", "e2e/support/tiers.py"]

FILES = {
    ".ci/gate.toml": """
        core_suites = ["e2e/room/room_test.py"]
        tidy_commits = 1
        tidy_most = 1
        stalest_minutes = 0
        [phases]
        lint = 1
        build = 1
        tests = 1
        cluster = 1
        """,
    ".ci/nightly.toml": """
        shard = []
        [every_shard]
        sources = []
        [groups]
        """,
    "scripts/lint": """
        #!/bin/sh
        case $1 in
          list) echo format words ;;
          words) echo "page.md:3: a word that must not be here"; exit 1 ;;
        esac
        """,
    "e2e/build/build": "#!/bin/sh\n",
    "CMakePresets.json": """
        {"version": 5,
         "configurePresets": [{"name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}"}]}
        """,
    "CMakeLists.txt": r"""
        cmake_minimum_required(VERSION 3.24)
        project(planted C)
        enable_testing()
        add_executable(sound sound.c)
        add_executable(broken broken.c)
        add_test(NAME sound COMMAND sound)
        add_test(NAME rooms COMMAND sh ${CMAKE_SOURCE_DIR}/rooms.sh)
        """,
    "sound.c": "int main(void) { return 0; }\n",
    "broken.c": "int main(void) { return nothing; }\n",
    # What a GoogleTest program prints.
    "rooms.sh": r"""
        printf 'JANUS_SEED=7\n[  FAILED  ] Room.IsEmpty (1 ms)\n[  PASSED  ] 4 tests.\n[  SKIPPED ] 2 tests, listed below:\n'
        exit 1
        """,
    "e2e/room/room_test.py": """
        import unittest

        class RoomTest(unittest.TestCase):
            def test_has_a_door(self):
                pass

            def test_has_a_window(self):
                self.fail("there is none")

        if __name__ == "__main__":
            unittest.main()
        """,
}
REPORT = """\
Failed (phase, suite, test; then the command that repeats it):
  lint  words
      scripts/lint words
  build  dev build  CMakeFiles/broken.dir/broken.c.o
      ninja -C build/dev CMakeFiles/broken.dir/broken.c.o
  tests  rooms  Room.IsEmpty
      JANUS_SEED=7 ctest --test-dir build/dev --output-on-failure -R '^rooms$'
  cluster  e2e/room/room_test.py  RoomTest.test_has_a_window: there is none
      JANUS_TIME_SCALE=3 python3 -B e2e/room/room_test.py RoomTest.test_has_a_window
Skipped:
  tests  rooms: 2 of its cases skip themselves
7 passed, 4 failed, 2 skipped
"""


class PlantedFailuresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "scripts/checks", self.tree / "scripts/checks", ignore=shutil.ignore_patterns("__pycache__"))
        for name in SHARED:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        for name, text in FILES.items():
            self.write(name, text)
        # JANUS_ variables would be part of the commands that repeat.
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("JANUS_") and name not in ("KUBECONFIG", "GTEST_BRIEF")}
        self.environment = {**kept, "XDG_CACHE_HOME": str(self.tree / "cache")}

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        path.chmod(0o755)

    def run_there(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_one_run_reports_them_all_and_each_command_repeats_its_own(self):
        done = self.run_there("scripts/test")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertTrue(done.stdout.endswith("\n" + REPORT), done.stdout[-2000:])
        commands = [line.strip() for line in REPORT.splitlines() if line.startswith("      ")]
        said = ["a word that must not be here", "nothing", "Room.IsEmpty", "there is none"]
        for command, finding in zip(commands, said, strict=True):
            again = self.run_there(command)
            self.assertNotEqual(again.returncode, 0, command)
            self.assertIn(finding, again.stdout, command)

    def test_what_is_mended_is_reported_no_more(self):
        self.write("scripts/lint", "#!/bin/sh\n[ $1 != list ] || echo format words\n")
        self.write("broken.c", "int main(void) { return 0; }\n")
        self.write("rooms.sh", r"printf '[  PASSED  ] 5 tests.\n'")
        done = self.run_there("scripts/test lint build tests")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("Failed", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "9 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
