"""A headless Chromium, led over a pipe in its DevTools protocol: for screenshots and tests.

On Debian: `apt-get install chromium`.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds for a page
# Chromium expects the pipes to be numbers 3 and 4, which may be taken by one another.
START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for number, pipe in zip((3, 4), pipes):
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
INSTALL = "no Chromium: on Debian, apt-get install chromium"


def find_chromium() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab.

    Parameters
    ----------
    binary : str, optional
        Of a Chromium; the installed one by default.
    """

    def __init__(self, binary: str | None = None) -> None:
        binary = binary or find_chromium()
        if binary is None:
            raise ValueError(INSTALL)
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        options = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                   "--hide-scrollbars", f"--user-data-dir={self._profile.name}"]  # fmt: skip
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which root cannot have
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs_in), str(theirs_out), binary, *options],
            pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self._number, self._rest = 0, b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._in.read(2**16)
            if not part:
                raise RuntimeError("the browser is gone")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def run(self, script: str) -> Any:
        """Run a script in the page; what it gives."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until a script gives something true in the page."""
        end = time.monotonic() + PATIENCE
        while not self._holds(script):
            if time.monotonic() > end:
                raise TimeoutError(f"still not so after {PATIENCE:g} s: {script}")
            time.sleep(0.05)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.run(f"!!({script})"))
        except RuntimeError:  # between two pages
            return False

    def open(self, address: str, width: int = 1100, height: int = 900) -> None:
        """Open an address on a screen of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        self.call("Page.navigate", url=address)
        self.wait(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def screenshot(self) -> bytes:
        """The screen as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._profile.cleanup()
