#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# beside.sh PROGRAM TAG...: runs the cases of a Catch2 program side by side, in a process for each TAG and one for all
# other cases. It suits cases that mostly wait for deadlines. Hidden cases do not run, and a tag must belong to a case.
program=$1
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
ids='' others='~[.]' status=0
for tag; do
  "$program" -w NoTests "[$tag]~[.]" >"$folder/$tag" 2>&1 &
  ids="$ids $!"
  others="$others~[$tag]"
done
"$program" -w NoTests "$others" || status=1
for id in $ids; do
  wait "$id" || status=1
done
for tag; do
  printf '\n[%s]\n' "$tag"
  cat "$folder/$tag"
done
exit $status
