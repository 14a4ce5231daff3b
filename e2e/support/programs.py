"""Programs that a test runs, and what ELF files are linked with."""

import re
import subprocess


def call(*words, environment=None):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, env=environment)


def output(*words, environment=None):
    """Its output; a failure is an error with what it said."""
    done = call(*words, environment=environment)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def dynamic(file, tag):
    """What its dynamic section has of it: NEEDED, the libraries that it is linked with. No ELF file has any."""
    if file.read_bytes()[:4] != b"\x7fELF":
        return []
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-dW", file))
