"""Names of methods, architectures and data sets: walkback's own rows, and what others add."""

from __future__ import annotations

from walkback.registry import Registry

METHODS = Registry(
    "method",
    {
        "bp": "walkback.lab.zoo.methods.bp:BP",
        "fa": "walkback.lab.zoo.methods.fa:FA",
        "fa_block": "walkback.lab.zoo.methods.fa_block:BlockFA",
        "dfa": "walkback.lab.zoo.methods.dfa:DFA",
        "state_bridge": "walkback.lab.zoo.methods.state_bridge:StateBridge",
        "credit_bridge": "walkback.lab.zoo.methods.credit_bridge:CreditBridge",
        "credit_bridge_vector": "walkback.lab.zoo.methods.credit_bridge_vector:CreditBridgeVector",
        "ep": "walkback.lab.zoo.methods.ep:EP",
    },
    group="methods",
    check="walkback.lab.zoo.check:check_method",
)

ARCHITECTURES = Registry(
    "architecture",
    {
        "resmlp": "walkback.lab.zoo.architectures.resmlp:resmlp",
        "vit_mini": "walkback.lab.zoo.architectures.vit_mini:vit_mini",
        "small_cnn": "walkback.lab.zoo.architectures.small_cnn:small_cnn",
        "student_net": "walkback.lab.zoo.architectures.student_net:student_net",
        "small_resnet": "walkback.lab.zoo.architectures.small_resnet:small_resnet",
    },
    group="architectures",
    check="walkback.lab.zoo.check:check_architecture",
)

DATASETS = Registry(
    "data set",
    {
        "cifar10": "walkback.lab.zoo.datasets.cifar10:load",
        "fashion_mnist": "walkback.lab.zoo.datasets.fashion_mnist:load",
        "digits": "walkback.lab.zoo.datasets.digits:load",
        "synthetic_teacher": "walkback.lab.zoo.datasets.synthetic_teacher:load",
    },
    group="datasets",
    check="walkback.lab.zoo.check:check_dataset",
)
