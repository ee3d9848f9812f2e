# SPDX-License-Identifier: Apache-2.0
# Completion of the rondo command for bash: commands and options are those that its help has.
# shellcheck shell=bash

_rondo_commands() { "$1" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p'; }

_rondo_options() {
  "$1" "$2" --help 2>/dev/null | sed -n 's/^  *\(-[^ ]*\).*/\1/p' | tr , '\n' | sed 's/:.*//'
}

_rondo() {
  local rondo=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} index
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_rondo_commands "$rondo") help --help --version" -- "$current")
    return
  fi
  if [ "${COMP_WORDS[1]}" = help ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_rondo_commands "$rondo")" -- "$current")
    return
  fi
  if [ "${COMP_WORDS[1]}" = run ]; then  # what follows -- is another program's
    for ((index = 2; index < COMP_CWORD; ++index)); do
      [ "${COMP_WORDS[index]}" != -- ] || return 0
    done
  fi
  case "$current" in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_rondo_options "$rondo" "${COMP_WORDS[1]}")" -- "$current") ;;
  esac
}

complete -o bashdefault -o default -F _rondo rondo
