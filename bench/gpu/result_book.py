"""The file of results of scripts/gpu: JSON lines, flushed one by one, and the step to which each belongs."""

import json
import os

from result_lines import result_lines


def sections(lines):
    """Each line with its step and that step's digest; None for a line outside steps."""
    step = digest = None
    for line in lines:
        if "run" in line or "seconds" in line:
            step = digest = None
        if line.get("step") and line.get("begins"):
            step, digest = line["step"], line.get("digest")
        if "step" in line:
            yield line["step"], line.get("digest", digest if line["step"] == step else None), line
        else:
            yield step, digest, line


def case_counts(lines):
    """Cases of GoogleTest by how each ended last. Lost: it ended the process or made the GPU fail."""
    last = {}
    for line in lines:
        if "begins" in line and "step" not in line:
            last.setdefault(line["begins"], "lost")
        if "case" in line:
            last[line["case"]] = "skipped" if line.get("skipped") else "passed" if line.get("passed") else "failed"
    return {how: sum(of == how for of in last.values()) for how in ("passed", "failed", "skipped", "lost")}


class Book:
    def __init__(self, path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def lines(self):
        return result_lines(self.path)

    def write(self, **fields):
        line = json.dumps(fields)
        print(line, flush=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if whole else "\n") + line + "\n")

    def begin(self, run):
        """Refuses results of another GPU, which must not be mixed with those of this one."""
        def name_of(gpu):  # without the memory size, which depends on the driver
            return str(gpu).split(",")[0]
        for line in self.lines():
            there = line.get("run", {}).get("gpu")
            if there is None or name_of(there) == name_of(run["gpu"]):
                continue
            if run["gpu"] == "none":
                raise SystemExit(f"scripts/gpu: {self.path} has results of gpu {there}, and nvidia-smi says nothing of the "
                                 "one here: try again, or give another file")
            raise SystemExit(f"scripts/gpu: {self.path} has results of gpu {there}, this is {run['gpu']}; give another file")
        self.write(run=run)

    def retire(self, digests):
        """Puts aside the lines of steps whose programs have other digests. They are not read any more, by the programs
        either, so that the steps run again. Returns these steps."""
        lines = list(sections(self.lines()))
        stale = {step for step, digest, line in lines
                 if step in digests and line.get("begins") and "step" in line and digest != digests[step]}
        if not stale:
            return stale
        kept = [{"retired": line} if step in stale and digest != digests[step] and "retired" not in line else line
                for step, digest, line in lines]
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        os.replace(beside, self.path)
        return stale

    def of_step(self, name):
        return [line for step, _, line in sections(self.lines()) if step == name]

    def tries(self, step):
        return sum(line.get("step") == step and "begins" in line for line in self.lines())

    def ended(self, step):
        return any(line.get("step") == step and line.get("ended") for line in self.lines())

    def begun(self):
        """How many cases of tests and benchmarks have begun."""
        return sum("bench_begins" in line or ("begins" in line and "step" not in line) for line in self.lines())

    def during(self):
        """The test or benchmark case that began last and did not end; None: it ended."""
        under_way = None
        for line in self.lines():
            if "step" not in line and (name := line.get("bench_begins") or line.get("begins")):
                under_way = name
            elif under_way in (line.get("bench"), line.get("case")):
                under_way = None
        return under_way

    def last_begun(self):
        return next((line["begins"] for line in reversed(self.lines()) if "begins" in line and "step" not in line), None)

    def failures(self):
        """Steps and cases that failed."""
        begun, ended, found = {}, set(), []
        lines = self.lines()
        done = {line["step"] for line in lines if line.get("step") and line.get("ended")}
        for line in lines:
            name = line.get("bench_begins") or ("step" not in line and line.get("begins"))
            if name:
                begun[name] = begun.get(name, 0) + 1
            if "bench" in line:
                ended.add(line["bench"])
            if "case" in line:
                ended.add(line["case"])
                if not line.get("passed"):
                    found.append(line["case"])
            if line.get("step") and "failed" in line and "passed" not in line and line["step"] not in done:
                found.append(f"step {line['step']}")
            if "found" in line:
                found.append(f"step {line['step']}: {line['found']}")
        found += [name for name, times in begun.items() if times > 1 and name not in ended]  # it hangs, or ends the
                                                                                             # process
        return sorted(set(found))
