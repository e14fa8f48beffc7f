"""`make docs`: the pages become a site, and a link that leads nowhere stops it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytest.importorskip("properdocs")


def built(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "properdocs", "build", "--site-dir", str(project / "site")]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The configuration as it is, for pages of one's own."""
    shutil.copy(ROOT / "properdocs.yml", tmp_path)
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.mark.thorough
def test_every_page_is_built_and_loads_nothing_from_elsewhere(project):
    shutil.rmtree(project / "docs")
    shutil.copytree(ROOT / "docs", project / "docs")
    done = built(project)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(project / "docs").with_suffix("") for path in project.glob("docs/**/*.md")}
    for page in pages:
        made = page.with_name("index") if page.name == "README" else page
        assert (project / "site" / made.with_suffix(".html")).exists(), page
    for html in project.glob("site/**/*.html"):
        text = html.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", text)
        assert not loaded, f"{html.name} loads {loaded}"


def test_the_first_page_leads_to_every_other():
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", first))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert linked == pages | {"decisions/README.md"}
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert path.name in decisions, path.name


@pytest.mark.thorough
@pytest.mark.parametrize("link", ["gone.md", "index.md#gone"])
def test_a_link_that_leads_nowhere_fails_the_build(project, link):
    (project / "docs" / "index.md").write_text(f"# Start\n\nSee [this]({link}).\n")
    done = built(project)
    assert done.returncode == 1
    assert "gone" in done.stderr
