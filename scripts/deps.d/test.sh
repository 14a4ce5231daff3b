#!/usr/bin/env bash
# The group "test" of scripts/deps: the virtual environment of the Python tests (the official openai
# client against the gateway).
#
# Sourced, it defines deps_test; run, it calls it. Safe to run twice.

JANUS_TEST_PACKAGES=(
  openai==2.8.1
  httpx==0.28.1
  pytest==9.0.1
)

deps_test() {
  local venv="${XDG_CACHE_HOME:-$HOME/.cache}/janus/test-venv" python
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
      echo "test: install the Debian package python3-venv, then run this again" >&2
      return 1
    fi
    echo "test: installing python3-venv"
    apt-get install -y --no-install-recommends python3-venv || return 1
  fi
  # The stamp names what is installed: another pin in this file means another installation.
  local stamp="$venv/janus-packages" want
  want="$(printf '%s\n' "${JANUS_TEST_PACKAGES[@]}")"
  if [[ -f $stamp && "$(<"$stamp")" == "$want" ]]; then
    echo "test: $venv is up to date"
    return 0
  fi
  echo "test: installing the openai client and pytest into $venv"
  python="$venv/bin/python"
  [[ -x $python ]] || python3 -m venv "$venv" || return 1
  "$python" -m pip install --quiet --disable-pip-version-check "${JANUS_TEST_PACKAGES[@]}" ||
    return 1
  printf '%s\n' "$want" >"$stamp"
  echo "test: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_test
fi
