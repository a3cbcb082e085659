"""One file per question. Each reads an audit and the runs it refers to, and needs no torch and no training.

A study is a `base.Study`: `answer` makes plain JSON of an audit, and `paragraphs` writes that JSON, and nothing else,
as text and tables. A new one is one file and one row here.
"""

from walkback.registry import Registry

STUDIES = Registry(
    "study",
    {
        "ablation": "walkback.lab.studies.ablation:STUDY",
        "sensitivity": "walkback.lab.studies.sensitivity:STUDY",
        "random-init": "walkback.lab.studies.random_init:STUDY",
        "temporal": "walkback.lab.studies.temporal:STUDY",
        "early-stop": "walkback.lab.studies.early_stop:STUDY",
        "penalty": "walkback.lab.studies.penalty:STUDY",
        "partial": "walkback.lab.studies.partial:STUDY",
        "null": "walkback.lab.studies.null:STUDY",
        "depth": "walkback.lab.studies.scaling:DEPTH",
        "width": "walkback.lab.studies.scaling:WIDTH",
        "aggregation": "walkback.lab.studies.aggregation:STUDY",
        "triangulation": "walkback.lab.studies.triangulation:STUDY",
        "variants": "walkback.lab.studies.variants:STUDY",
        "false-positives": "walkback.lab.studies.false_positives:STUDY",
    },
)
