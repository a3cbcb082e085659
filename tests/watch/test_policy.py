import pytest

from walkback.errors import InputError
from walkback.protocol.judge import read
from walkback.protocol.records import Measurements
from walkback.watch.moment import At
from walkback.watch.policy import Course, StopPolicy

FINE = read(Measurements(residual_norms=[1, 1], bp_grad_norms=[1e-3, 1e-3]))
EXPLODED = read(Measurements(residual_norms=[1, 100], bp_grad_norms=[1e-3, 1e-3]))
DRIFTING = read(
    Measurements(residual_norms=[1, 1], bp_grad_norms=[1e-3, 1e-3], cross_batch_stability=0.9, stability_layer=0)
)
CONFIDENT = read(Measurements(residual_norms=[1, 1], bp_grad_norms=[1e-9, 1e-9], error_size=1e-6))
AT_FLOOR = read(Measurements(residual_norms=[1, 1], bp_grad_norms=[1e-9, 1e-9], error_size=0.9))
NAN_GRADIENT = read(Measurements(residual_norms=[1, 1], bp_grad_norms=[float("nan"), 1e-3]))


def after(policy, *readings):
    course = Course(policy)
    return [course.see(At(epoch=epoch), each) for epoch, each in enumerate(readings, 1)]


def test_the_first_firing_of_a_or_b_stops_and_says_when_each_fired():
    one, two, three = after(StopPolicy(), DRIFTING, EXPLODED, AT_FLOOR)
    assert (one.action, one.reason) == ("continue", "")
    assert (two.action, two.reason) == ("stop", "(a) residual stream exploded at epoch 2")
    assert three.reason == "(b) BP grad at numerical floor at epoch 3"
    assert {letter: at.epoch for letter, at in three.first_fired.items()} == {"c": 1, "a": 2, "b": 3}


def test_c_stops_only_where_it_is_asked_to():
    assert not after(StopPolicy(), DRIFTING)[-1].stop
    assert after(StopPolicy(("c",)), DRIFTING)[-1].stop


def test_a_network_that_has_fitted_its_data_is_not_stopped_by_b():
    (decision,) = after(StopPolicy(), CONFIDENT)
    assert not decision.stop
    assert "b" in decision.first_fired


def test_patience_counts_firings_in_a_row():
    actions = [d.action for d in after(StopPolicy(patience=2), EXPLODED, FINE, EXPLODED, EXPLODED)]
    assert actions == ["continue", "continue", "continue", "stop"]


def test_nothing_stops_during_the_warm_up_but_firings_are_noted():
    decisions = after(StopPolicy(warmup=3), EXPLODED, EXPLODED, EXPLODED)
    assert [d.stop for d in decisions] == [False, False, True]
    assert decisions[-1].first_fired["a"].epoch == 1


def test_nan_stops_whichever_diagnostic_finds_it_unless_nothing_may_stop():
    assert after(StopPolicy(("a",)), NAN_GRADIENT)[-1].reason == "(b) non-finite values at epoch 1"
    assert not after(StopPolicy(()), NAN_GRADIENT)[-1].stop


def test_going_back_forgets_what_came_after():
    course = Course(StopPolicy())
    course.see(At(epoch=1), FINE)
    assert course.see(At(epoch=2), EXPLODED).stop
    decision = course.see(At(epoch=2), FINE)
    assert not decision.stop
    assert decision.first_fired == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"stop_on": ("e",)}, "diagnostic 'e'"),
        ({"patience": 0}, "patience is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"warmup": float("nan")}, "warmup is nan"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(arguments, expected):
    with pytest.raises(InputError, match=expected):
        StopPolicy(**arguments)


def test_letters_may_come_as_a_word():
    assert StopPolicy.of("abc", 1, 0).stop_on == ("a", "b", "c")
