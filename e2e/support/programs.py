"""Runs programs, and reads the libraries of ELF files."""

import re
import subprocess


def call(*words, environment=None):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, env=environment)


def output(*words, environment=None):
    """The output. A failure raises an error with the output."""
    done = call(*words, environment=environment)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def dynamic(file, tag):
    """The entries of its dynamic section with this tag; NEEDED: linked libraries. Empty for a file that is not ELF."""
    if file.read_bytes()[:4] != b"\x7fELF":
        return []
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-dW", file))
