#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian or Ubuntu machine ready to build and test Tenon: installs the packages that are missing, and makes
# .venv with the Python packages of tools/requirements.txt. A machine that has everything is left as it is.
#
#   tools/setup.sh [--aarch64]      with what `make test-aarch64` needs besides (on Debian)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
    build-essential cmake ninja-build pkg-config clang-format clang-tidy graphviz
    nanopb protobuf-compiler python3-dev python3-venv
)
libraries=(
    libcmocka-dev libpthreadpool-dev libxxhash-dev libnanopb-dev
    libjansson-dev libpcre2-dev libpopt-dev libpng-dev libjpeg-dev libwebp-dev
    libtiff-dev libopenjp2-7-dev libzip-dev zlib1g-dev
)
aarch64=(gcc-aarch64-linux-gnu qemu-user)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# FileCheck comes in a package that has LLVM's version in its name.
have_filecheck() {
    command -v FileCheck >/dev/null || compgen -G '/usr/lib/llvm-*/bin/FileCheck' >/dev/null
}

filecheck_package() {
    local version
    version=$(apt-cache depends clang-format | sed -n 's/.*: clang-format-\([0-9][0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || die "cannot tell which LLVM this system has; install FileCheck (llvm-*-tools) by hand"
    echo "llvm-$version-tools"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_packages() {
    local missing=() package
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ] && have_filecheck; then return; fi
    changed=yes
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "needs root, or sudo, to install: ${missing[*]:-FileCheck}"
        if [ -t 0 ]; then
            read -r -p "setup: install ${missing[*]:-FileCheck} with apt-get? [Y/n] " answer
            case ${answer:-y} in [yY]*) ;; *) die "stopped; nothing was installed" ;; esac
        fi
    fi
    as_root apt-get -q update
    have_filecheck || missing+=("$(filecheck_package)")
    say "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}"
}

# The libraries for aarch64 are unpacked in .cache/aarch64 and not installed: packages of two architectures on one machine
# must be of the same version, so that would change what this machine has. apt finds, checks and downloads them with all that
# they need, as for a machine on which nothing is installed yet.
make_sysroot() {
    local root=.cache/aarch64 state=$PWD/.cache/aarch64.apt wanted package link options
    wanted="$(cat /etc/debian_version) ${libraries[*]}"
    if [ "$(cat $root/.packages 2>/dev/null)" = "$wanted" ]; then return; fi
    changed=yes
    say "unpacking the libraries for aarch64 in $root"
    rm -rf "$root" "$state"
    mkdir -p "$root" "$state"/{lists,archives}/partial
    : >"$state/status"
    options=(-q -y --no-install-recommends -o APT::Architecture=arm64 -o APT::Architectures::=arm64
        -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state")
    apt-get "${options[@]}" update
    apt-get "${options[@]}" install --download-only libc6-dev "${libraries[@]}"
    for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    find "$root" -lname '/*' | while read -r link; do ln -sfnr "$root$(readlink "$link")" "$link"; done
    rm -rf "$state"
    echo "$wanted" >"$root/.packages"
}

# The stamp names the requirements, the interpreter and the place, so that .venv follows a change of any of them.
make_venv() {
    local python=/usr/bin/python3 stamp=.venv/.requirements interpreter requirements
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs Python 3.11 or newer at $python"
    interpreter="$("$python" --version) $PWD"
    requirements=$(sha256sum <tools/requirements.txt | cut -d' ' -f1)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$interpreter $requirements" ]; then return; fi
    changed=yes
    say "installing the Python packages of tools/requirements.txt in .venv"
    case $(cat "$stamp" 2>/dev/null) in
        "$interpreter "*) ;;
        *) "$python" -m venv --clear .venv ;;
    esac
    .venv/bin/python -m pip --disable-pip-version-check -q install -r tools/requirements.txt
    echo "$interpreter $requirements" >"$stamp"
}

command -v dpkg-query >/dev/null || die "this is for Debian and Ubuntu; CONTRIBUTING.md lists what to install elsewhere"
case ${1:-} in
    '') aarch64=() ;;
    --aarch64)
        [ "$(dpkg --print-architecture)" != arm64 ] || die "this machine is aarch64 itself: \`make test\`"
        . /etc/os-release
        [ "$ID" = debian ] || die "--aarch64 is for Debian, whose servers hold the packages of all architectures"
        ;;
    *) die "usage: tools/setup.sh [--aarch64]" ;;
esac
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9

changed=no
install_packages "${packages[@]}" "${libraries[@]}" "${aarch64[@]}"
make_venv
[ ${#aarch64[@]} = 0 ] || make_sysroot
if [ "$changed" = no ]; then say "nothing to do"; else say "done"; fi
