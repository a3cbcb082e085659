"""One file per question. Each reads an audit and the runs it refers to, and needs no torch and no training.

A study is a `base.Study`: `answer` makes plain JSON of an audit, and `draw` makes paragraphs and tables of that JSON
and of nothing else. A new one is one file and one row here.
"""

from walkback.registry import Registry

STUDIES = Registry(
    "study",
    {
        "ablation": "walkback.experiments.studies.ablation:STUDY",
        "sensitivity": "walkback.experiments.studies.sensitivity:STUDY",
        "random-init": "walkback.experiments.studies.random_init:STUDY",
        "temporal": "walkback.experiments.studies.temporal:STUDY",
        "early-stop": "walkback.experiments.studies.early_stop:STUDY",
        "penalty": "walkback.experiments.studies.penalty:STUDY",
        "partial": "walkback.experiments.studies.partial:STUDY",
        "null": "walkback.experiments.studies.null:STUDY",
        "depth": "walkback.experiments.studies.scaling:DEPTH",
        "width": "walkback.experiments.studies.scaling:WIDTH",
        "triangulation": "walkback.experiments.studies.triangulation:STUDY",
        "variants": "walkback.experiments.studies.variants:STUDY",
        "false-positives": "walkback.experiments.studies.false_positives:STUDY",
    },
)
