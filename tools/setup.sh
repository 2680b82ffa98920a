#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian or Ubuntu machine ready to build and test Tenon: installs the packages that are missing, and makes
# .venv with the Python packages of tools/requirements.txt. A machine that has everything is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
    build-essential cmake ninja-build pkg-config clang-format clang-tidy graphviz
    libcmocka-dev libpthreadpool-dev libxxhash-dev libnanopb-dev nanopb protobuf-compiler
    libjansson-dev libpcre2-dev libpopt-dev libpng-dev libjpeg-dev libwebp-dev
    libtiff-dev libopenjp2-7-dev libzip-dev zlib1g-dev
    python3-dev python3-venv
)

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
    for package in "${packages[@]}"; do
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
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9

changed=no
install_packages
make_venv
if [ "$changed" = no ]; then say "nothing to do"; else say "done"; fi
