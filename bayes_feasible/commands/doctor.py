"""`bayes-feasible doctor`."""

import argparse

from bayes_feasible.commands import _output as output
from bayes_feasible.commands._parser import AddParser, add_command

UNSOUND = 1


def add(add_parser: AddParser) -> None:
    """Declare the arguments."""
    doctor = add_command(
        add_parser,
        run,
        "doctor",
        help="check the installation",
        description="Check the versions, the cache of compiled code and, against reference values\n"
        "in high precision, the numbers. The exit code is 1 if anything is not sound.",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of lines")


def run(options: argparse.Namespace) -> int:
    """Print one line a finding, and what to do where something is wrong."""
    from bayes_feasible.doctor import examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not options.json:
            mark = "ok   " if finding.sound else "WRONG"
            output.show(f"{mark}  {finding.subject:<24}  {finding.detail}")
    sound = all(finding.sound for finding in findings)
    if options.json:
        output.show_json([vars(finding) for finding in findings])
    else:
        output.show(
            "\nEverything is sound." if sound else "\nSomething is wrong: see the lines above."
        )
    return 0 if sound else UNSOUND
