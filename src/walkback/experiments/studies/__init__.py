"""One file per question. Each reads an audit and the runs it refers to, and needs no torch and no training.

A study is a module with `QUESTION`, `study(audit)`, which gives plain JSON, and `sections(result)`, which draws
that JSON and nothing else.
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
    },
)
