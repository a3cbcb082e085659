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
        "sign_symmetry": "walkback.lab.zoo.methods.sign_symmetry:SignSymmetry",
        "kp": "walkback.lab.zoo.methods.kp:KP",
        "weight_mirror": "walkback.lab.zoo.methods.weight_mirror:WeightMirror",
        "drtp": "walkback.lab.zoo.methods.drtp:DRTP",
        "sdfa": "walkback.lab.zoo.methods.sdfa:SDFA",
        "pc": "walkback.lab.zoo.methods.pc:PC",
        "dtp": "walkback.lab.zoo.methods.dtp:DTP",
        "local_loss": "walkback.lab.zoo.methods.local_loss:LocalLoss",
        "mono_forward": "walkback.lab.zoo.methods.mono_forward:MonoForward",
        "forward_forward": "walkback.lab.zoo.methods.forward_forward:ForwardForward",
        "pepita": "walkback.lab.zoo.methods.pepita:Pepita",
        "forward_gradient": "walkback.lab.zoo.methods.forward_gradient:ForwardGradient",
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
        "mlp": "walkback.lab.zoo.architectures.mlp:mlp",
        "lenet": "walkback.lab.zoo.architectures.lenet:lenet",
        "resnet": "walkback.lab.zoo.architectures.resnet:resnet",
        "gpt": "walkback.lab.zoo.architectures.gpt:gpt",
    },
    group="architectures",
    check="walkback.lab.zoo.check:check_architecture",
)

DATASETS = Registry(
    "data set",
    {
        "cifar10": "walkback.lab.zoo.datasets.cifar10:load",
        "mnist": "walkback.lab.zoo.datasets.mnist:load",
        "fashion_mnist": "walkback.lab.zoo.datasets.fashion_mnist:load",
        "digits": "walkback.lab.zoo.datasets.digits:load",
        "synthetic_teacher": "walkback.lab.zoo.datasets.synthetic_teacher:load",
        "parity": "walkback.lab.zoo.datasets.parity:load",
        "product": "walkback.lab.zoo.datasets.product:load",
        "shells": "walkback.lab.zoo.datasets.shells:load",
        "digit_pairs": "walkback.lab.zoo.datasets.digit_pairs:load",
        "two_words": "walkback.lab.zoo.datasets.two_words:load",
        "shakespeare": "walkback.lab.zoo.datasets.shakespeare:load",
    },
    group="datasets",
    check="walkback.lab.zoo.check:check_dataset",
)
