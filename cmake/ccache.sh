#!/usr/bin/env bash
# Runs ccache: cmake/ccache.sh CCACHE COMPILER [ARGUMENT...]
#
# ccache counts the precompiled header that stands at the place of a new one among what the new one is made of, so that
# a folder that is built again would share nothing with a fresh clone. Therefore the old one goes first.
if [[ " $* " == *" -x c++-header "* ]]; then
  for ((i = 1; i < $#; ++i)); do
    [[ ${!i} != -o ]] || { next=$((i + 1)); rm -f "${!next}"; }
  done
fi
exec "$@"
