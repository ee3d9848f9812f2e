# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: where the checkout is, what must be installed, how a build folder is made.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8
# The objects that ccache kept for another checkout serve this one. Only the folder in debugging information would
# differ.
export CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The comment at the head of the calling script, after its SPDX line, is its help.
show_help() { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

packages_build=(g++ meson ninja-build pkg-config python3 libsodium-dev libhwloc-dev libhwy-dev
  nlohmann-json3-dev libcli11-dev catch2 groff-base libdnnl-dev
  libucx-dev libibverbs-dev)
packages_hosts=(iproute2 nftables openssh-client openssh-server)  # tests make hosts of network namespaces by them
packages_docs=(doxygen)     # the reference of the C API is made by it
packages_consumers=(cmake python3-numpy)  # tests find the installed Rondo by CMake, and pass arrays of NumPy
packages_peers=(openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev
  python3-matplotlib)  # bench/compare draws by it

# Debian and Ubuntu name clang's run-time library (libFuzzer, AddressSanitizer) after its version. Its linker, lld,
# takes less than half of the time of binutils'.
packages_fuzz() {
  case "$(distribution)" in
    'debian 12') echo clang lld libclang-rt-14-dev ;;
    'ubuntu 24.04') echo clang lld libclang-rt-18-dev ;;
    *) echo clang lld libclang-rt-dev ;;
  esac
}

distribution() { (. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || echo unknown; }

package_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints the named packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do package_installed "$package" || printf '%s ' "$package"; done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} \
      ${https_proxy:+"https_proxy=$https_proxy"} "$@"
  fi
}

# Without apt we install nothing; the installed tools must do.
require_tools() {
  local tool missing=
  for tool in c++ meson ninja pkg-config python3; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
  [ -z "$missing" ] || fail "this system ($(distribution)) has no apt-get, and these tools are missing:$missing.
Install them, and the development files of libsodium, hwloc, highway, nlohmann-json, CLI11, Catch2 and
oneDNN (in Debian: ${packages_build[*]}), then start again."
}

# Installs the named packages that are missing. With nothing to do it touches no network.
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    require_tools
    return
  fi
  local missing
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and you are neither root nor have sudo: $missing
Have an administrator run:  apt-get install --no-install-recommends $missing"
  fi
  step "installing: $missing"
  as_root apt-get update -qq || fail "apt-get update failed; is there a network? Missing are: $missing"
  local output
  output=$(mktemp)
  # shellcheck disable=SC2086
  as_root apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 $missing >"$output" 2>&1 || {
    cat "$output" >&2
    rm -f "$output"
    fail "apt-get could not install: $missing"
  }
  rm -f "$output"
}

# NVIDIA's compiler from the Python index, all pinned: of different versions, its parts disagree.
packages_cuda=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85)
cuda_folder=$root/.cache/cuda  # cuda/meson.build looks there
cuda_installed=/usr/local/cuda

nvcc_found() {
  command -v nvcc >/dev/null || [ -x "$cuda_installed/bin/nvcc" ] || [ -x "$cuda_folder/nvidia/cu13/bin/nvcc" ]
}

# get_python_packages FOLDER PACKAGE...: into that folder, all of them or none.
get_python_packages() {
  local folder=$1
  shift
  if ! python3 -m pip --version >/dev/null 2>&1; then (install_packages python3-pip) || true; fi
  rm -rf "$folder.new"
  if python3 -m pip install --quiet --retries 1 --timeout 15 --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary=:all: --target "$folder.new" "$@"; then
    rm -rf "$folder"
    mv "$folder.new" "$folder"
  else
    rm -rf "$folder.new"
    return 1
  fi
}

# Where no CUDA toolkit is installed, gets one that compiles the kernels (105 MB). Without it, all else is built.
setup_cuda() {
  if nvcc_found; then return; fi
  step "getting nvcc, which no CUDA toolkit here brings, from the Python index (105 MB)"
  get_python_packages "$cuda_folder" "${packages_cuda[@]}" ||
    say "There is no nvcc: the build goes on without the kernels for CUDA devices. To add them, install CUDA 13."
}

setup_build() {
  install_packages "${packages_build[@]}"
  setup_cuda
}
setup_docs() { install_packages "${packages_docs[@]}"; }
setup_peers() {
  install_packages "${packages_peers[@]}" "${packages_consumers[@]}" "${packages_hosts[@]}" "${packages_docs[@]}"
}
# shellcheck disable=SC2046
setup_fuzz() { install_packages $(packages_fuzz); }

# Makes configure take clang, and its linker if it is installed. Meson itself finds ccache only if CC is not set.
use_clang() {
  local cached=
  if command -v ccache >/dev/null; then cached='ccache '; fi
  export CC="${cached}clang" CXX="${cached}clang++"
  if command -v ld.lld >/dev/null; then export CC_LD=lld CXX_LD=lld; fi
}

# configure FOLDER [meson options]: makes the build folder once. Changed options make it anew.
configure() {
  local folder=$1 stamp=$root/$1/rondo-options
  shift
  if [ -f "$root/$folder/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then return; fi
  rm -rf "${root:?}/$folder"
  if ! meson setup "$root/$folder" "$root" "$@" >"$root/$folder.log" 2>&1; then
    tail -n 40 "$root/$folder.log" >&2
    fail "meson setup $folder failed; the whole output is in $folder.log"
  fi
  mv "$root/$folder.log" "$root/$folder/rondo-setup.log"
  printf '%s' "$*" >"$stamp"
}

# refresh FOLDER: makes its build files anew if a meson.build has changed. The files of a unity build then include
# sources by paths that are the same in each checkout. By Meson's paths, checkouts could not share the compiler's cache.
# A file that was the same before keeps its time, so that ninja does not compile it again.
refresh() {
  local folder=$root/$1 files file
  ninja -C "$folder" build.ninja >/dev/null || fail "Meson cannot make the build files of $1 anew"
  mapfile -d '' -t files < <(grep -rlZ --include='*-unity*.cpp' --exclude-dir=examples \
    "^#include<$folder/" "$folder")
  for file in "${files[@]}"; do
    sed -i -E "s|^#include<$folder/(\.\./)?(.*)>|#include \"\2\"|" "$file"
    if [ "$(<"$file")" = "$(cat "$file.kept" 2>/dev/null)" ]; then cp -p "$file.kept" "$file"
    else cp -p "$file" "$file.kept"; fi
  done
}

# A sanitizer's build is quick by these options. Of the debugging information it has only the numbers of lines. It lacks
# the image of kernels, which takes a minute to compile, and which no sanitizer checks. A finding ends the test in any
# case, since code that would go on takes a third more time to compile.
# Files of libraries are compiled together (unity), too, which halves the time of a build.
sanitized=(-Dbuildtype=debugoptimized -Ddebug=false -Doptimization=1 -Dcuda=disabled -Dtests=true
  -Dunity=on -Dunity_size=8)
sanitized_code='-g1 -fno-sanitize-recover=all -Wno-shadow'

# configure_asan: the build with AddressSanitizer, which has the fuzzers, too. It uses clang, which compiles this in a
# third of g++'s time, and its code is quicker. The two checks that are left out want the types of all functions and
# objects, which librondo.so keeps to itself. g++'s -Wconversion does not warn of signs.
configure_asan() {
  use_clang
  configure build-asan "${sanitized[@]}" -Dfuzzers=true -Db_sanitize=address,undefined \
    "-Dcpp_args=$sanitized_code -fno-sanitize=function,vptr -Wno-sign-conversion"
}

# Prints the cores of this process, or as many as its control group's limit of time amounts to, if that is less. A
# container may see many that it can hardly use, and as many tests side by side would wait for each other.
usable_cores() {
  local cores quota=max period=100000
  cores=$(nproc)
  if [ -r /sys/fs/cgroup/cpu.max ]; then
    read -r quota period </sys/fs/cgroup/cpu.max
  elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then  # version 1; -1: no limit
    read -r quota </sys/fs/cgroup/cpu/cpu.cfs_quota_us
    read -r period </sys/fs/cgroup/cpu/cpu.cfs_period_us
  fi
  if [[ $quota =~ ^[0-9]+$ ]]; then
    quota=$(((quota + period - 1) / period))
    if [ "$quota" -lt "$cores" ]; then cores=$quota; fi
  fi
  echo "$cores"
}

# build FOLDER [ninja targets]: prints how much there is to do. The compilers' output is shown only when it fails.
build() {
  local folder=$1 planned
  shift
  refresh "$folder"
  planned=$(NINJA_STATUS='[%f/%t] ' ninja -C "$root/$folder" -n "$@") ||
    fail "ninja cannot plan the build of $folder: $planned"
  planned=$(sed -n 's/^\[[0-9]*\/\([0-9]*\)\].*/\1/p' <<<"$planned" | tail -n 1)
  if [ -z "$planned" ]; then
    say "$folder: nothing to build"
    return
  fi
  say "$folder: $planned steps to build"
  # One more than cores, as ninja has where there are two.
  ninja -C "$root/$folder" -j $(($(usable_cores) + 1)) --quiet "$@" || fail "building $folder failed"
}
