"""The result of a suite, a phase or a shard, and its report."""

import dataclasses


@dataclasses.dataclass
class Failure:
    suite: str
    test: str  # "": the suite as a whole failed
    repeat: str  # the command that runs it again
    reason: str = ""


@dataclasses.dataclass
class Outcome:
    """Counts are of tests if a suite reports them, otherwise of suites."""

    name: str
    seconds: float = 0.0
    built: float = 0.0  # of these, seconds of compiling, which depend on what the compiler cache has
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)  # (what, why, how many)
    flaky: list = dataclasses.field(default_factory=list)  # names that passed on their second try
    suites: list = dataclasses.field(default_factory=list)  # (name, seconds, "passed" | "failed" | "skipped")

    def add(self, other):
        """Adds the counts, but not the seconds: these may have run at the same time."""
        self.built += other.built
        self.passed += other.passed
        self.failures += other.failures
        self.skipped += other.skipped
        self.flaky += other.flaky
        self.suites += other.suites

    def failed(self):
        return len(self.failures)

    def skips(self):
        return sum(many for _, _, many in self.skipped)


def verdict(outcomes):
    """The closing line: 'N passed, N failed, N skipped'."""
    return (f"{sum(o.passed for o in outcomes)} passed, {sum(o.failed() for o in outcomes)} failed, "
            f"{sum(o.skips() for o in outcomes)} skipped")


def problems(outcomes):
    """Lines with failures, skips, and tests that passed only on a second try."""
    lines = []
    if any(o.failures for o in outcomes):
        lines.append("Failed (phase, suite, test; then the command that repeats it):")
        for outcome in outcomes:
            for failure in outcome.failures:
                words = [outcome.name, failure.suite, failure.test]
                lines.append("  " + "  ".join(word for word in words if word) +
                             (f": {failure.reason}" if failure.reason else ""))
                lines.append(f"      {failure.repeat}")
    if any(o.flaky for o in outcomes):
        lines.append(f"FLAKY ({sum(len(o.flaky) for o in outcomes)} failed once, then passed):")
        lines += [f"  {outcome.name}  {name}" for outcome in outcomes for name in outcome.flaky]
    if any(o.skipped for o in outcomes):
        lines.append("Skipped:")
        lines += [f"  {outcome.name}  {what}: {why}" for outcome in outcomes for what, why, _ in outcome.skipped]
    return lines


def times_table(rows):
    """CSV of (kind, name, seconds, seconds of building beside them, result) rows."""
    lines = ["kind,name,seconds,building,result"]
    lines += [f"{kind},{name},{seconds:.0f},{built:.0f},{how}" for kind, name, seconds, built, how in rows]
    return "\n".join(lines) + "\n"
