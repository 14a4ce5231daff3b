#!/bin/sh
# nvcc.sh REPORT COMMAND...: runs the compiler and keeps what it says in REPORT; all of it is shown
# when it fails.
report=$1
shift
"$@" 2>"$report" && exit 0
status=$?
cat "$report" >&2
rm -f "$report"
exit "$status"
