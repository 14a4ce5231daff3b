#!/bin/sh
# nvcc.sh REPORT FOLDER COMMAND...: runs the compiler and keeps what it says in REPORT, the PTX that
# it makes in FOLDER; all of the former is shown when it fails.
report=$1
folder=$2
shift 2
rm -rf "$folder"
mkdir -p "$folder"
"$@" --keep --keep-dir "$folder" 2>"$report"
status=$?
find "$folder" -type f ! -name '*.ptx' -delete
[ "$status" -eq 0 ] && exit 0
cat "$report" >&2
rm -f "$report"
exit "$status"
