"""Text as LaTeX that compiles with no packages: specials escaped, symbols as math, the rest by number."""

from __future__ import annotations

import re
import unicodedata

from walkback.present.plain import one_line

_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "`": r"\`{}", "'": "'",
    # A bracket after the end of a row would be read as that row's optional argument.
    "[": "{[}", "]": "{]}",
    "–": "--", "—": "---", "…": r"\dots{}", "“": "``", "”": "''", "‘": "`", "’": "'",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}",
}  # fmt: skip

_MATH = {
    "<": "<", ">": ">", "|": "|", "‖": r"\|", "×": r"\times", "±": r"\pm", "−": "-", "·": r"\cdot",
    "≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "≠": r"\neq", "→": r"\to", "←": r"\leftarrow",
    "∞": r"\infty", "∂": r"\partial", "ℓ": r"\ell", "∇": r"\nabla", "Σ": r"\Sigma", "√": r"\surd",
    "⌊": r"\lfloor", "⌋": r"\rfloor", "⟨": r"\langle", "⟩": r"\rangle", "½": r"\frac12", "°": r"{}^\circ",
    "²": "{}^2", "³": "{}^3", "⋮": r"\vdots",
}  # fmt: skip

_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "omicron", "pi", "rho", "finalsigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
)  # fmt: skip
# Capitals that look Latin have no command in LaTeX.
_LATIN_CAPITALS = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧ", "ABEZHIKMNOPTX", strict=True))
_OWN_NAMES = {"finalsigma": r"\varsigma", "omicron": "o"}

_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip

_FORMULA = re.compile(
    r"(?<![\w.])(?P<digits>[-+]?\d+(?:\.\d+)?)e(?P<sign>[-+])0*(?P<power>\d+)(?!\w)"
    r"|(?<![\w.)])(?P<signed>[-+]\d+(?:\.\d+)?)(?!\w|\.\d)"
    r"|‖(?P<vector>[a-zA-Z])(?:_(?P<index>\w))?‖"
)


def escape(text: str) -> str:
    """The text on one line as LaTeX; `4.2e+08` becomes $4.2\\times10^{8}$, and `‖h_L‖` one formula."""
    line = one_line(text)
    pieces, at = [], 0
    for match in _FORMULA.finditer(line):
        pieces += [_characters(line[at : match.start()]), _formula(match)]
        at = match.end()
    # Two formulas side by side are one: $$ would look like the start of a display.
    return re.sub(r"(?<!\\)\$\$", " ", "".join([*pieces, _characters(line[at:])]))


def _formula(match: re.Match[str]) -> str:
    if match["signed"]:
        return f"${match['signed']}$"
    if match["vector"]:
        index = f"_{{{match['index']}}}" if match["index"] else ""
        return rf"$\|{match['vector']}{index}\|$"
    sign = "-" if match["sign"] == "-" else ""
    return rf"${match['digits']}\times10^{{{sign}{match['power']}}}$"


def _characters(text: str) -> str:
    return "".join(_character(c) for c in text)


def _character(c: str) -> str:
    if c in _TEXT:
        return _TEXT[c]
    if c in _MATH:
        return f"${_MATH[c]}$"
    if c.isascii():
        return c
    return _greek(c) or _subscript(c) or _accented(c) or f"{{[}}U+{ord(c):04X}{{]}}"


def _greek(c: str) -> str:
    if c in _LATIN_CAPITALS:
        return f"${_LATIN_CAPITALS[c]}$"
    lower = ord(c.lower()) - ord("α") if len(c.lower()) == 1 else -1
    if not 0 <= lower < len(_GREEK):
        return ""
    name = _GREEK[lower]
    if name in _OWN_NAMES:
        return f"${_OWN_NAMES[name]}$"
    return f"$\\{name.capitalize() if c.isupper() else name}$"


def _subscript(c: str) -> str:
    kind, _, value = unicodedata.decomposition(c).partition(" ")
    if kind not in ("<sub>", "<super>") or len(value) != 4:
        return ""
    plain = chr(int(value, 16)).replace("−", "-")
    # The empty group keeps two of them side by side from being one double superscript.
    return f"${{}}{'_' if kind == '<sub>' else '^'}{{{plain}}}$" if plain.isascii() else ""


def _accented(c: str) -> str:
    parts = unicodedata.normalize("NFD", c)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return ""
