"""janusctl serve over many starts and stops, and with too few cores.

JANUS_SOAK=1 runs 200 starts (50 with a process killed at a random moment) and five minutes of four
times as many busy threads as cores; otherwise a few of each.
"""

import concurrent.futures
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from serving import Service, copy_demo, draw_seed, scaled, wait_for

SOAK = bool(os.environ.get("JANUS_SOAK"))
SEED = draw_seed()


class Endurance(Service, unittest.TestCase):
    def setUp(self):
        self.open(copy_demo)
        self.random = random.Random(SEED)

    def tearDown(self):
        self.close()

    def segments(self):
        """Shared memory with a name; ours has no name."""
        return set(pathlib.Path("/dev/shm").iterdir())

    def seconds_to_end(self):
        began = time.monotonic()
        self.janusctl.communicate(timeout=scaled(30))
        wait_for(lambda: not self.processes(), "the end of all processes")
        return time.monotonic() - began

    def test_nothing_is_left_however_it_ends(self):
        segments = self.segments()
        slowest = 0.0
        for run in range(200 if SOAK else 6):
            killed = run % 4 == 3 if SOAK else run % 2 == 1
            self.start("--attention", "2", "--experts", "2")
            if killed:
                # At any time between the first process and the first tokens.
                time.sleep(self.random.uniform(0.0, 1.0))
                victims = [pid for pid, _ in self.processes()] + [self.janusctl.pid]
                victim = self.random.choice(victims)
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has ended meanwhile, with the run
                whole = victim != self.janusctl.pid
                # If a process is lost before the service serves, the start fails. Later losses are
                # repaired.
                serves = whole and any(line.startswith("serving ") for line in self.janusctl.stdout)
                if serves:
                    self.complete_when_it_listens([5, 6, 7], tokens=2)
                    self.janusctl.send_signal(signal.SIGINT)
            else:
                self.wait_for_line("serving ")
                self.complete([5, 6, 7], tokens=2)
                self.janusctl.send_signal(signal.SIGINT)
                whole = serves = True
            took = self.seconds_to_end()
            slowest = max(slowest, took)
            self.assertLessEqual(took, scaled(5.0), f"run {run}")
            self.assertEqual(self.segments() - segments, set())
            if whole:  # a killed janusctl leaves its folder of sockets to the next run
                self.assertEqual(list(self.run_dir.iterdir()), [], f"run {run}")
                self.assertEqual(self.janusctl.returncode, 0 if serves else 1, f"run {run}")
            self.janusctl.stdout.close()
            self.janusctl.stderr.close()
        print(f"slowest end: {slowest:.1f} s", file=sys.stderr)

    def test_no_request_fails_with_four_times_as_many_threads_as_cores(self):
        self.start_serving("--attention", "2", "--experts", "3")
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(4 * os.cpu_count())
        ]
        try:
            end = time.monotonic() + (300 if SOAK else 8)
            with concurrent.futures.ThreadPoolExecutor(8) as clients:

                def client(number):
                    own = random.Random(SEED + number)
                    done = 0
                    while done < 2 or time.monotonic() < end:
                        prompt = [own.randrange(2, 3000) for _ in range(own.randrange(1, 60))]
                        reply = self.post(
                            {"model": "golden", "prompt": prompt, "max_tokens": own.randrange(1, 24)},
                            timeout=scaled(120))
                        self.assertIn(reply["choices"][0]["finish_reason"], ("stop", "length"))
                        done += 1
                    return done

                answered = sum(clients.map(client, range(8)))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        aborted = re.findall(r"steps aborted (\d+)", self.stop())
        print(f"{answered} requests answered, {(aborted or [0])[-1]} steps aborted and repeated",
              file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
