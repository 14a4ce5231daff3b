#!/bin/sh
# bench/driver.cc on a CPU: driver_test.sh DRIVER. Every topology gives the same answer and logits, another seed
# gives others, and invalid arguments are refused.
driver=$1
failed=0

fail() {
  echo "$1" >&2
  failed=1
}

# Prints only tokens and logits.
answer() { "$driver" --device cpu --max-tokens 12 --tokens 5,17,3,2 "$@" | sed -n '2,3p'; }

# refuses WORD ARGUMENT...: the arguments must be refused, with a line that has the word.
refuses() {
  word=$1
  shift
  said=$("$driver" "$@" 2>&1)
  status=$?
  [ "$status" -eq 2 ] || fail "driver $*: status $status, not 2"
  [ "$(echo "$said" | wc -l)" -eq 1 ] || fail "driver $*: says more or less than a line: $said"
  echo "$said" | grep -qe "$word" || fail "driver $*: says nothing of $word: $said"
}

for model in small small_latent small_sigmoid small_fp8 small_mxfp4; do
  one=$(answer --model $model --seed 7)
  [ "$(echo "$one" | head -1 | tr ',' ' ' | wc -w)" -eq 13 ] || fail "$model: not 12 tokens: $one"
  echo "$one" | grep -Eq '^logits [0-9a-f]{16}$' || fail "$model: no digest of logits: $one"
  many=$(answer --model $model --seed 7 --topology 2x3)
  [ "$one" = "$many" ] || fail "$model: 1x1 and 2x3 differ: $one / $many"
  other=$(answer --model $model --seed 8)
  [ "$(echo "$one" | tail -1)" != "$(echo "$other" | tail -1)" ] || fail "$model: seeds 7 and 8 have the same logits"
done
# The digest covers every token's logits: a shorter answer has another one.
[ "$(answer --max-tokens 12 | tail -1)" != "$(answer --max-tokens 11 | tail -1)" ] ||
  fail "the digest of 11 tokens is that of 12"

"$driver" --model small_latent --topology 2x3 | grep -q '^small_latent of 3 layers, 2A3E on cpu$' ||
  fail "2x3 is served by others than 2 attention and 3 expert instances"

refuses --model --model no_such_model
refuses --layers --model v3
refuses --device --device tpu
refuses --topology --topology 2
refuses --topology --topology 2x
refuses --topology --topology 0x1
refuses --topology --topology 1x8
refuses --topology --topology 65x1
refuses --tokens --tokens 1,,2
refuses --tokens --tokens 1,-2
refuses --tokens --tokens 83
refuses --max-tokens --max-tokens 0
refuses positions --max-tokens 254
refuses --layers --layers 1
refuses --layers --model v2-lite --layers 28
refuses --layers --model v2-lite --layers 1
refuses --tokens --model v2-lite --layers 2 --tokens 102400
refuses --seed --seed
refuses --steps --steps 3
exit $failed
