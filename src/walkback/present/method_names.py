"""What a reader is told a method is called: one name for each, in tables, pages and figures.

Records keep the labels that rules and files depend on. A label alone does not say which rule it is of: `dfa` is scaled
DFA where the audit's row says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from walkback.present.network import Network

_WORDS = {"bp": "BP", "fa": "FA", "fa_block": "FA by blocks", "dfa": "DFA", "ep": "EP", "state_bridge": "State Bridge",
          "credit_bridge": "Credit Bridge", "credit_bridge_vector": "Credit Bridge, vector",
          "dfa_textbook": "DFA"}  # fmt: skip
SCALED_DFA = "scaled DFA"
_LABEL = re.compile(r"([a-z_]+)(?=$|[: ])(.*)", re.DOTALL)

Rows = Mapping[str, Mapping[str, Any]]
"""The options of each row of an audit, by its label."""


def shown_name(label: str, options: Mapping[str, Any] | None = None) -> str:
    """The name of a recorded label; a label that is none of the zoo's methods stands as it is."""
    found = _LABEL.fullmatch(label.lower())
    words = _WORDS.get(found[1]) if found else None
    if found is None or words is None:
        return label
    if found[1] == "dfa" and (options or {}).get("credit_norm") == "per_sample":
        words = SCALED_DFA
    rest = label[found.end(1) :]
    return words + rest.replace(":", ", ").replace("penalty=", "λ = ")


def rows_of(audit: Mapping[str, Any]) -> Rows:
    """The options by which each row of an audit was trained; none where it does not say them."""
    config = audit.get("config")
    rows = config.get("rows", ()) if isinstance(config, Mapping) else ()
    return {row["label"]: row["options"] for row in rows}


def in_shown_names(networks: Sequence[Network]) -> list[Network]:
    """The networks of audits by the names that readers know; others keep theirs, which somebody gave them."""
    return [network if network.options is None else _renamed(network) for network in networks]


def _renamed(network: Network) -> Network:
    label = network.report.method_name
    name = shown_name(label, network.options)
    return replace(network, report=network.report.model_copy(update={"method_name": name}), recorded=label)


def recorded_as(networks: Sequence[Network]) -> str:
    """Which rows of the record are DFA of which kind, that names alone would leave open; empty where none is."""
    said: dict[str, str] = {}
    for network in networks:
        norm = (network.options or {}).get("credit_norm")
        if network.recorded.lower().startswith("dfa"):
            name, label = network.method.partition(",")[0], network.recorded.partition(":")[0]
            said.setdefault(name, label + (f" (credit_norm={norm})" if norm else ""))
    return "; ".join(f"{name} is {label}" for name, label in said.items())
