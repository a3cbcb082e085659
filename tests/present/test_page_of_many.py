"""The box of a page of many networks, the lists in sentences, and what stopping at the end saves."""

from pathlib import Path

import pytest

from walkback.cli.output import require_writable
from walkback.errors import InputError
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore
from walkback.present.evidence import panel_rates
from walkback.present.html_grid import GridPage, render
from walkback.present.in_panel import other_verdicts_of_several
from walkback.present.seeds import HOW_TO_READ
from walkback.present.traces import course_sentence
from walkback.protocol.wording import listed, were
from walkback.watch.replay import replay

AUDIT = Path("results/audit_resmlp_d256.json")


def test_the_box_says_how_sure_the_panel_is_and_what_to_do():
    networks = networks_in([str(AUDIT)], RunStore("nowhere", "nowhere"))
    page = render(GridPage("audit", networks))
    box = page[page.index('aria-label="Verdict"') : page.index("</section>")]
    assert "how sure</dt>" in box
    assert panel_rates(networks[0].report)[:60] in box
    assert "next</dt>" in box
    assert f'<p class="quiet">{HOW_TO_READ}</p>' in page


def test_other_panels_are_counted_with_the_number_first():
    reports = [entry.report for entry in replay(AUDIT)]
    assert "june2026: 10 PASS, 11 FAIL" in other_verdicts_of_several(reports)


@pytest.mark.parametrize(
    ("letters", "words"),
    [(["(a)"], "(a) was"), (["(a)", "(c)"], "(a) and (c) were"), (["(a)", "(c)", "(d)"], "(a), (c) and (d) were")],
)
def test_lists_and_their_verbs(letters, words):
    assert were(letters) == words
    assert words.startswith(listed(letters))


def test_a_stop_at_the_last_measurement_saves_nothing(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("epoch,h_0,h_1,g_1\n1,8,9,0.004\n2,8,9000,0.004\n")
    (entry,) = replay(log)
    assert entry.course.saved_share == 0
    assert "only at the last measurement" in course_sentence(entry.course)
    assert "saves 0" not in course_sentence(entry.course)


def test_a_file_is_not_called_by_the_sign_of_standard_output():
    with pytest.raises(InputError, match="/dev/stdout"):
        require_writable([Path("-")])
