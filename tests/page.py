"""A page as tests read it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """Elements in order, and whether every one is closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
