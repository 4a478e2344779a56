"""The built site: headings that scripts can find, a complete reference, no network."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import epiclick

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for other in ("0.1.0", "0.10.0"):
        (folder / other).mkdir()
        (folder / other / "index.html").write_text("another version")
    command = [sys.executable, ROOT / "supply" / "site.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / version("epiclick")


def test_versions_stay_beside_each_other_and_the_newest_opens(site: Path) -> None:
    every = site.parent
    assert 'url=0.10.0/"' in (every / "index.html").read_text()
    listed = re.findall(r'href="([^"]+)/"', (every / "versions.html").read_text())
    assert listed == ["0.10.0", site.name, "0.1.0"]
    assert (every / "0.1.0" / "index.html").read_text() == "another version"
    assert f"<title>epiclick {site.name}" in (site / "index.html").read_text()


def test_no_heading_starts_with_a_digit(site: Path) -> None:
    # the theme's script looks up headings as #id, fails on a digit, and leaves tables unstyled
    headings = [
        (page.parent.name, name)
        for page in site.rglob("index.html")
        for name in re.findall(r'<h\d id="([^"]+)"', page.read_text())
    ]
    assert len(headings) > 100
    assert not [heading for heading in headings if heading[1][0].isdigit()]


def test_the_reference_explains_every_public_name(site: Path) -> None:
    page = (site / "reference" / "index.html").read_text()
    for name, home in epiclick._MODULES.items():
        assert f'id="{home}.{name}"' in page, name
    assert "epiclick.api.EpistemicPBM.position_bias" in page  # inherited
    assert "::: " not in page


def test_no_page_needs_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not loaded, page
