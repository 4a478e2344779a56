"""One report for all tests of the page, as gathering it takes seconds."""

from pathlib import Path

import pytest

from epiclick.report.page import Report, gather, write_report

from .planted import sources_of


@pytest.fixture(scope="session")
def report() -> Report:
    return gather(sources_of())


@pytest.fixture(scope="session")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(report, path)
    return path
