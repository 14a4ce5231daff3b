"""Clients that ask an endpoint without a pause (asker.py): tests start, watch and end them."""

import json
import pathlib
import subprocess

from cluster_case import wait_for
from images_case import PYTHON

ASKER = pathlib.Path(__file__).with_name("asker.py")
PROMPTS = ("It is a truth universally acknowledged", "Elizabeth looked out of the window",
           "Mr. Darcy walked into the room and")


class Askers:
    """Askers on a node, where Services have their addresses; until `end`."""

    def __init__(self, node, url, count=3):
        self.process = subprocess.Popen(node.box.command(PYTHON, "-B", ASKER, url, str(count), "40", *PROMPTS),
                                        env=node.box.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def answers(self):
        """How many answers came so far."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def await_more(self, count):
        before = self.answers()
        wait_for(lambda: self.answers() >= before + count, f"{count} more answers")

    def end(self):
        """Ends the askers and returns their results."""
        self.process.stdin.close()
        return json.loads(self.process.stdout.read())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
