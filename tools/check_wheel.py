"""check_wheel.py WHEEL...: exits with a message unless each wheel runs where it should, and is not too large.

auditwheel says which Linux a wheel needs, by the versions of symbols that its library takes from glibc."""

import re
import subprocess
import sys
from pathlib import Path

NEWEST_GLIBC = (2, 36)  # of Debian 12, where .ci/run builds it
MAX_MB = 8  # compressed


def complaint(name: str, size: int, audited: str) -> str | None:
    """What is wrong with a wheel of that size, of which `auditwheel show` says so."""
    words = " ".join(audited.split())
    found = re.search(r'following platform tag: "(?:manylinux_(\d+)_(\d+))?', words)
    if not found or not found[1]:
        return f"{name}: is for no manylinux: {words}"
    if (int(found[1]), int(found[2])) > NEWEST_GLIBC:
        return (
            f"{name}: needs glibc {found[1]}.{found[2]}; expected {'.'.join(map(str, NEWEST_GLIBC))} or older"
        )
    if size > MAX_MB * 1e6:
        return f"{name}: has {size / 1e6:.1f} MB; expected at most {MAX_MB:g}"
    print(f"{name}: {size / 1e6:.1f} MB, for manylinux_{found[1]}_{found[2]}")
    return None


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("check_wheel.py: expected wheels")
    for path in map(Path, sys.argv[1:]):
        show = [sys.executable, "-m", "auditwheel", "show", str(path)]
        audited = subprocess.run(show, capture_output=True, text=True, check=False)
        if wrong := complaint(path.name, path.stat().st_size, audited.stdout + audited.stderr):
            sys.exit(wrong)


if __name__ == "__main__":
    main()
