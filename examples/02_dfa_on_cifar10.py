"""Five epochs of direct feedback alignment on CIFAR-10, and what walkback says of them.

Takes about a minute on one core. The data set is fetched on first use; the run is kept in `runs/`, so starting
this again shows the report at once. An argument sets the number of epochs.
"""

import sys

from walkback.lab.runs.baselines import finished_report
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.progress import EpochDone, Silent
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume


class Printed(Silent):
    """One line per epoch."""

    def epoch_done(self, event: EpochDone) -> None:
        epoch = event.record
        print(
            f"epoch {epoch.epoch}/{event.epochs}: accuracy {epoch.accuracy:.3f}, "
            f"‖h_L‖ {epoch.residual_norms[-1]:.3g}, ‖g_L‖ {epoch.bp_grad_norms[-1]:.3g}, fired: {list(epoch.fired)}",
            flush=True,
        )


def main() -> None:
    config = RunConfig(
        method="dfa",
        architecture="resmlp",
        data="cifar10",
        seed=42,
        epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        # With each sample's credit scaled to unit length, samples already learnt keep pushing: the stream explodes.
        method_options={"credit_norm": "per_sample"},
        schedule="constant",
    )
    store = RunStore()
    train_or_resume(config, store, Printed())
    print()
    print(finished_report(store, config))


if __name__ == "__main__":
    main()
