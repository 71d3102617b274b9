#!/bin/sh
# fetch_header.sh FOLDER: what a virtual environment needs to compile extensions. Where Python.h is not installed,
# Debian's package of it is unpacked into the folder, as header_files.
set -eu
cd "$1"
bin/python -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2> /dev/null && exit
package=libpython$(bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')-dev
echo "Python.h is not installed: fetching $package into $1"
apt-get download -qq "$package" && dpkg -x "$package"_*.deb header_files || {
    echo 'smallmm is built from C and needs Python.h: install it (Debian: apt-get install python3-dev)'
    exit 1
}
