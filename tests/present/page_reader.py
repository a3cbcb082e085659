"""HTML as a tree of elements that tests can ask."""

from __future__ import annotations

import html.parser

VOID = {"meta", "br", "input"}


class Page(html.parser.HTMLParser):
    """Every element with its attributes and its own text, and a check that each is closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": ""})
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": ""})

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **attrs):
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attrs.items()}
        return [e for e in self.elements if e["tag"] == tag and wanted.items() <= e["attrs"].items()]

    def text(self, tag, **attrs):
        return [" ".join(e["text"].split()) for e in self.all(tag, **attrs)]
