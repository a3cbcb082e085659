"""The plan and its split: fixed, committed, and by nothing but a hash of the configurations."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from walkback.errors import InputError, RecordError
from walkback.lab.validity import split
from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.plan import plan

COMMITTED = Path(__file__).parents[3] / "results" / "validity"


def test_the_committed_split_is_the_split_of_this_code():
    split.require_committed(COMMITTED)
    assert (COMMITTED / split.SPLIT_FILE).read_text() == split.written()


def test_halves_are_disjoint_whole_and_large_enough():
    for name in CONDITIONS:
        fit, held = ({c.id for c in split.halves()[half][name]} for half in ("fit", "held"))
        assert not fit & held
        assert fit | held == {c.id for c in plan()[name]}
        wanted = (150, 300) if name == "healthy" else (10, 29)
        assert (split.quota(name, "fit"), split.quota(name, "held")) == wanted
        assert len(fit) >= wanted[0]
        assert len(held) >= wanted[1]
        assert (len(fit), len(held)) == ((170, 340) if name == "healthy" else (12, 33))


def test_the_half_follows_from_salt_and_configuration_alone():
    """Twin: the SHA-256 of the salt and of the configuration's own JSON, ranked."""
    for name, configs in plan().items():
        keys = {}
        for config in configs:
            whole = json.dumps(json.loads(config.model_dump_json()), sort_keys=True)
            own = hashlib.sha256(whole.encode()).hexdigest()[:16]
            assert own == config.id
            keys[hashlib.sha256(f"{split.SALT}/{own}".encode()).hexdigest()] = own
        ranked = [keys[key] for key in sorted(keys)]
        count = 170 if name == "healthy" else 12
        assert [c.id for c in split.halves()["fit"][name]] == ranked[:count]
        assert [c.id for c in split.halves()["held"][name]] == ranked[count:]


def test_another_plan_is_refused(tmp_path):
    changed = split.as_file() | {"plan_digest": "another"}
    (tmp_path / split.SPLIT_FILE).write_text(json.dumps(changed))
    with pytest.raises(RecordError, match="plan has changed"):
        split.require_committed(tmp_path)
    with pytest.raises(InputError, match="fit or held"):
        split.half_named("half")


def test_healthy_configurations_are_independent_and_varied():
    configs = plan()["healthy"]
    kinds = {json.dumps({k: v for k, v in c.to_dict().items() if k not in ("number", "seed")}) for c in configs}
    assert len(kinds) == len(configs) >= 450
    assert len({c.seed for c in configs}) == len(configs)
    for name, least in (("architecture", 7), ("task", 8), ("optimizer", 3), ("depth", 5), ("width", 5), ("method", 3)):
        assert len({getattr(c, name) for c in configs}) >= least, name


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_a_dial_four_architectures_and_enough_networks(name):
    condition, configs = condition_named(name), plan()[name]
    assert len(configs) >= 39
    assert {c.architecture for c in configs} == set(condition.architectures)
    assert len(condition.architectures) >= 4
    assert {c.dial for c in configs} == set(condition.dials)
    assert len(condition.dials) >= 3
    assert condition.found_by or condition.unseen
    assert condition.name == name
    assert condition.title
    assert condition.made
    assert condition.dial_is
    assert len({c.id for c in configs}) == len(configs)
