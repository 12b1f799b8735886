#!/bin/sh
# Makes the virtual environment, or names what is missing and the line that installs it.
set -eu
venv="$1"
python="${PYTHON:-python3}"

how_to_install() { # what, Debian package, Homebrew formula
    echo "memkit needs $1." >&2
    if command -v apt-get >/dev/null 2>&1; then
        echo "Install it with:  sudo apt-get install $2" >&2
    elif command -v brew >/dev/null 2>&1 || [ "$(uname)" = Darwin ]; then
        echo "Install it with:  brew install $3" >&2
    else
        echo "Install it with your system's package manager." >&2
    fi
    exit 1
}

if ! command -v "$python" >/dev/null 2>&1; then
    how_to_install "Python 3.11 or newer; '$python' was not found" "python3 python3-venv" "python@3.12"
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    found=$("$python" -c 'import platform; print(platform.python_version())')
    for newer in python3.14 python3.13 python3.12 python3.11; do
        if "$newer" -c "import sys; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then
            echo "memkit needs Python 3.11 or newer; '$python' is $found." >&2
            echo "This machine has $newer; run again with:  make PYTHON=$newer" >&2
            exit 1
        fi
    done
    how_to_install "Python 3.11 or newer; '$python' is $found" "python3.11 python3.11-venv" "python@3.12"
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    how_to_install "the venv module of Python $version" "python$version-venv" "python@$version"
fi
"$python" -m venv "$venv"
