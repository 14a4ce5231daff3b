"""Reads the report of compute-sanitizer in a log that it shares with GoogleTest."""

import re

SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (\d+)", re.MULTILINE)
REFUSED = re.compile(r"^========= .*(?:[Dd]evice not supported|Unable to find injection|terminated before first "
                     r"instrumented|No attachable process|Failed to initialize).*$", re.MULTILINE)
REPORT = re.compile(r"^========= (.*(?:Invalid|Misaligned|Race reported|hazard detected|Uninitialized|Barrier error|"
                    r"MMA sequence|Program hit|out of bounds).*)$", re.MULTILINE)
MORE_LINES = 3  # kernel, thread and block, address


def found_in(text, last_begun=None):
    """The first report, with its kernel, its thread and the case that ran; None: no error was found. A log that was cut
    has a report without a summary."""
    report = REPORT.search(text)
    if not report:
        return next((f"{said[0].removeprefix('========= ')}, and no report that is known here"
                     for said in SUMMARY.finditer(text) if int(said[1])), None)
    said = [report[1].strip()]
    for line in text[report.end():].split("\n")[1:]:
        more = re.fullmatch(r"=========\s{2,}(\S.*)", line.rstrip())
        if not more or len(said) > MORE_LINES or "backtrace" in more[1]:
            break
        said.append(more[1])
    cases = re.findall(r"^\[ RUN      \] (\S+)", text[:report.start()], re.MULTILINE)
    case = cases[-1] if cases else last_begun
    return "; ".join(said) + (f"; in {case}" if case else "")


def unseen_in(text):
    """Why the tool did not check the program; None: it did."""
    if refused := REFUSED.search(text):
        return refused[0].removeprefix("=========").strip()
    return None if SUMMARY.search(text) else "compute-sanitizer gave no summary"
