from example_files import load

from walkback.watch.replay import replay


def test_the_plain_loop_stops_dfa_and_lets_bp_finish(tmp_path, capsys):
    example = load("03_monitor_plain_loop")
    bp, dfa = example.main(tmp_path)
    assert (bp.action, bp.at.epoch) == ("continue", example.EPOCHS)
    assert dfa.action == "stop"
    assert dfa.at.epoch < example.EPOCHS
    assert "residual stream exploded" in dfa.reason
    courses = {entry.name: entry.course for entry in replay(sorted(tmp_path.glob("*.jsonl")))}
    assert courses["bp"].stop is None
    assert courses["dfa"].stop == dfa.at
    assert "dfa: stop after epoch" in capsys.readouterr().out
