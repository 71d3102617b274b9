#!/bin/sh
# create_venv.sh PYTHON FOLDER: a virtual environment with pip. It needs no root: where Debian's python3-venv is not
# installed, which has pip, the package that pip comes in is unpacked into the folder.
set -eu
python=$1 folder=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "smallmm needs Python 3.11 or newer")'
"$python" -m venv --without-pip "$folder"
cd "$folder"
bin/python -m ensurepip --default-pip > created.log 2>&1 && exit
echo "python3-venv is not installed: fetching python3-pip-whl into $folder"
apt-get download -qq python3-pip-whl && dpkg -x python3-pip-whl_*.deb pip_files &&
    bin/python "$(ls pip_files/usr/share/python-wheels/pip-*.whl)/pip" install --quiet pip || {
    echo 'a virtual environment needs pip: install it (Debian: apt-get install python3-venv)'
    exit 1
}
