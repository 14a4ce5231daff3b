#!/usr/bin/env bash
# Environments of the programs that use the API: client libraries (group test), and tools for evaluation
# and load (group harness). Each package is pinned in pins/, because one environment cannot have them all.
#
# Sourced by scripts/deps, it defines deps_clients and deps_harness. Safe to run twice.

# shellcheck source=scripts/deps.d/golden.sh
source "$(dirname "${BASH_SOURCE[0]}")/golden.sh"

# install_pinned GROUP NAME [BESIDE]: pins/NAME.txt into NAME-venv, which also sees what BESIDE-venv has.
install_pinned() {
  local group=$1 name=$2 beside=${3:-} cache="${XDG_CACHE_HOME:-$HOME/.cache}/janus" pins
  local venv="$cache/$name-venv"
  pins="$(dirname "${BASH_SOURCE[0]}")/pins/$name.txt"
  # The stamp is the list of what is installed.
  if cmp -s "$pins" "$venv/janus-packages"; then
    echo "$group: $venv is up to date"
    return 0
  fi
  echo "$group: installing $name into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv" || return 1
  if [[ -n $beside ]]; then
    local site
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return 1
    echo "$cache/$beside-venv${site#"$venv"}" >"$site/$beside.pth"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$pins" || return 1
  cp "$pins" "$venv/janus-packages"
}

# Without them their tests are skipped.
deps_clients() {
  install_pinned test clients || echo "test: the tests of the client libraries are skipped"
}

# With torch and transformers of the group golden; 2 GB more.
deps_harness() {
  deps_golden || return 1
  install_pinned harness lm_eval golden && install_pinned harness guidellm golden && install_pinned harness aiperf
}
