"""Check that a wheel can be released: `python .ci/release.py dist/ragweave-*.whl [TAG]`; prints what is missing.

Its links must be absolute, which needs the repository's address in `pyproject.toml`; its version must be that of the
tag, of `CITATION.cff` and of a dated heading of `CHANGELOG.md`; licence and notice must be in it.
"""

from __future__ import annotations

import re
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(wheel: Path, tag: str = "") -> list[str]:
    """Return what keeps a wheel from being released."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(
            archive.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
        )
    version, text = str(metadata["Version"]), str(metadata.get_payload())
    licences = {Path(name).name for name in names if "/licenses/" in name}
    links = re.findall(r"\]\((?!https://|#)([^)]*)\)", text)
    checks = {
        "pyproject.toml: `repository`, the address, is not set (https://…)": metadata.get_all("Project-URL") is None,
        f"README.md: links are not absolute: {', '.join(links)}": links,
        f"the tag is {tag}, the version {version}": tag and tag != f"v{version}",
        f"CITATION.cff: the version is not {version}": f"\nversion: {version}\n" not in read("CITATION.cff"),
        f"CHANGELOG.md: no heading `## {version} (YYYY-MM-DD)`": not re.search(
            rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", read("CHANGELOG.md"), re.MULTILINE
        ),
        "the wheel lacks LICENSE or NOTICE": not {"LICENSE", "NOTICE"} <= licences,
    }
    return [problem for problem, is_there in checks.items() if is_there]


def read(name: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / name).read_text("utf-8")


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(sys.argv[1]), *sys.argv[2:])) or None)
