"""A browser without a screen, and the trial it looks at."""

import http.client
import re
from urllib.parse import urlencode, urlsplit

import bayes_feasible as bf

TOKEN = "a-token-that-nobody-guesses"
EVIL = "<script>alert('arm')</script>"
PROBLEM = bf.Problem(
    {EVIL: [1, 0], "10 mg": [1, 0.5], "20 mg": [1, 1]},
    thresholds={"<i>toxicity</i>": 0.5}, reward=bf.Gaussian(0.3), costs=bf.Gaussian(),
)  # fmt: skip


class Client:
    """One browser, without the screen."""

    def __init__(self, address):
        self.parts = urlsplit(address)
        self.root = self.parts.path.rstrip("/")
        self.origin = f"http://{self.parts.netloc}"

    def send(self, method, path, body=None, **headers):
        """Send a request; its status, headers and text."""
        connection = http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=60)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {k: v for k, v in names.items() if v})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def get(self, path="/", **headers):
        return self.send("GET", self.root + path, **headers)

    def form(self, step):
        """The hidden fields of a form on the page as it is now."""
        _, _, text = self.get()
        form = text.split(f'action="{step}"')[1].split("</form>")[0]
        return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))

    def post(self, step, fields, **headers):
        sent = {
            "origin": self.origin, "content_type": "application/x-www-form-urlencoded", **headers
        }  # fmt: skip
        body = fields if isinstance(fields, bytes) else urlencode(fields).encode()
        return self.send("POST", f"{self.root}/{step}", body, **sent)

    def submit(self, step, **fields):
        return self.post(step, self.form(step) | fields)
