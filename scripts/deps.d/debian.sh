#!/usr/bin/env bash
# What the groups with Python packages need from Debian. They source this file.

# The package of the venv module, which Debian's python3 lacks; nothing if the module is installed.
venv_package() { python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv; }

# install_debian GROUP PACKAGE...: installs them, or prints them for root to install. Does nothing without a
# package.
install_debian() {
  local group=$1
  shift
  (($#)) || return 0
  if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
    echo "$group: install these Debian packages, then run this again: $*" >&2
    return 1
  fi
  echo "$group: installing $*"
  apt-get install -y --no-install-recommends "$@"
}
