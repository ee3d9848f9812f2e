# SPDX-License-Identifier: Apache-2.0
# Completion of the rondo command for bash. Commands and options come from its help, which a shell reads once. Names of
# collectives come from its answer to an unknown one. Other values are listed here.
# shellcheck shell=bash

declare -gA _rondo_help  # by command; "rondo" has that of all

_rondo_read() {
  local key=${2:-rondo}
  [ -n "${_rondo_help[$key]+read}" ] || _rondo_help[$key]=$("$1" ${2:+"$2"} --help 2>/dev/null)
}

_rondo_commands() { sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' <<< "${_rondo_help[rondo]}"; }

_rondo_options() { sed -n 's/^  *\(-[^ ]*\).*/\1/p' <<< "${_rondo_help[$1]}" | tr , '\n' | sed 's/:.*//'; }

# Prints the collectives that a command knows.
_rondo_collectives() {
  "${COMP_WORDS[0]}" "$@" x 2>&1 | sed -n 's/.*known are: \([a-z_, ]*\).*/\1/p' | tr -d ,
}

# Prints the values of an option of a command, or with the option "" the command's arguments.
_rondo_values() {
  case "$1 $2" in
    'perf ') _rondo_collectives perf ;;
    'tune --collectives') _rondo_collectives tune --collectives | sed 's/ barrier$//' ;;
    'sim --collective') _rondo_collectives sim --collective ;;
    'schedule --collective') _rondo_collectives schedule --algorithm ring --collective ;;
    'schedule --algorithm')
      echo "ring tree halving_doubling one_shot two_shot hierarchical hierarchical_tree" ;;
    *' --algorithm') echo "auto ring tree halving_doubling one_shot two_shot hierarchical hierarchical_tree" ;;
    *' --protocol') echo "auto simple ll" ;;
    *' --kernel') echo "auto interpreter load_store" ;;
    'perf -d' | 'perf --datatype')
      echo "int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8_e4m3 float8_e5m2 all" ;;
    'perf -o' | 'perf --op') echo "sum prod min max avg mulsum all" ;;
    'perf --buffers') echo "private alloc registered moved" ;;
    'run --bind') echo "share core none" ;;
    'train --model') echo "nano tiny small gpt2" ;;
  esac
}

_rondo() {
  local rondo=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} index values
  COMPREPLY=()
  _rondo_read "$rondo"
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_rondo_commands) help --help --version" -- "$current")
    return
  fi
  local command=${COMP_WORDS[1]}
  if [ "$command" = help ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_rondo_commands)" -- "$current")
    return
  fi
  if [ "$command" = run ]; then  # what follows -- is another program's
    for ((index = 2; index < COMP_CWORD; ++index)); do
      [ "${COMP_WORDS[index]}" != -- ] || return 0
    done
  fi
  if [[ $current = -* ]]; then
    _rondo_read "$rondo" "$command"
    values=$(_rondo_options "$command")
  elif [[ $previous = -* ]]; then
    values=$(_rondo_values "$command" "$previous")
  elif [ "$COMP_CWORD" -eq 2 ]; then
    values=$(_rondo_values "$command" "")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
}

complete -o bashdefault -o default -F _rondo rondo
