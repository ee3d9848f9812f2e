#compdef rondo
# SPDX-License-Identifier: Apache-2.0
# Completion of the rondo command for zsh: commands and options are those that its help has.

_rondo() {
  local rondo=$words[1]
  local -a commands options
  commands=(${(f)"$($rondo --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')"})
  if (( CURRENT == 2 )); then
    compadd -- $commands help --help --version
  elif [[ $words[2] == help ]]; then
    compadd -- $commands
  elif [[ $words[2] == run && ${words[(i)--]} -lt $CURRENT ]]; then
    _files
  elif [[ $PREFIX == -* ]]; then
    options=(${(f)"$($rondo $words[2] --help 2>/dev/null | sed -n 's/^  *\(-[^ ]*\).*/\1/p' | tr , '\n' | sed 's/:.*//')"})
    compadd -- $options
  else
    _files
  fi
}

_rondo "$@"
