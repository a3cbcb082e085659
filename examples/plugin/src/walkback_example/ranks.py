"""A figure: the effective rank of every network, with the floor that (e) fires at."""

from __future__ import annotations


def plot(networks):
    """One mark for each network, and a line at the threshold; a network without the quantity has no mark."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 3.0), layout="constrained")
    axes = figure.subplots()
    for place, network in enumerate(networks):
        rank = network.report.measurements.value_of("effective_rank")
        if rank is not None:
            axes.plot(place, rank, "o", color="black")
    axes.axhline(networks[0].report.thresholds.rank_floor, linestyle="--", color="black")
    axes.set_xticks(range(len(networks)), [network.method for network in networks])
    axes.set_ylabel("effective rank of h_L")
    axes.set_yscale("log")
    return figure
