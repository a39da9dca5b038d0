"""The command: ``python -m tools.testbed up``, ``down`` and ``status``."""

import argparse
import json
import re
import signal
import sys
from typing import Final

from tools.testbed import DEFAULT_FOLDER, Testbed, TestbedError, down, status

_UNITS_US: Final = {"us": 1, "ms": 1000, "s": 1_000_000}


def microseconds(text: str) -> int:
    """Return what a duration such as 1ms, 500us or 0 says."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", text)
    if match is None and text != "0":
        raise argparse.ArgumentTypeError(f"expected a duration such as 1ms or 500us, found {text!r}")
    return round(float(match[1]) * _UNITS_US[match[2]]) if match else 0


def main() -> int:
    """Do what the command line says; return the exit status."""
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments))
    except (TestbedError, ValueError, OSError) as exc:
        print(f"testbed: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _up(arguments: argparse.Namespace) -> int:
    testbed = Testbed(
        bricks=arguments.bricks,
        nodes=arguments.nodes,
        read_delay_us=arguments.read_delay,
        error_rate=arguments.error_rate,
        folder=arguments.folder,
        data=arguments.data,
    )
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was begun is undone
    testbed.up()
    print(*testbed.mounts, sep="\n")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    if not down(arguments.folder, keep_data=arguments.keep_data):
        print(f"testbed: nothing is up in {arguments.folder}", file=sys.stderr)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    found = status(arguments.folder)
    if arguments.json:
        print(json.dumps(found.to_json() if found else None))
    else:
        print(found or f"{arguments.folder}: no testbed")
    return 0 if found is not None and found.is_whole else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.testbed", description="A distributed file system at home.")
    commands = parser.add_subparsers(required=True)
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--folder", default=DEFAULT_FOLDER, help="where the testbed lives (default: %(default)s)")
    up = commands.add_parser("up", parents=[folder], help="bring it up, and print each node's mount")
    up.add_argument("--bricks", type=int, default=2, help="servers (default: %(default)s)")
    up.add_argument("--nodes", type=int, default=4, help="clients, each with its mount (default: %(default)s)")
    up.add_argument("--read-delay", type=microseconds, default="1ms", help="of each read (default: %(default)s)")
    up.add_argument("--error-rate", type=float, default=0.0, help="share of reads that fail (default: %(default)s)")
    up.add_argument("--data", help="where the bricks' files lie (default: in the folder)")
    up.set_defaults(run=_up)
    end = commands.add_parser("down", parents=[folder], help="take it down")
    end.add_argument("--keep-data", action="store_true", help="leave the bricks' files for another testbed")
    end.set_defaults(run=_down)
    tell = commands.add_parser("status", parents=[folder], help="say what is up; exit status 0 if it is whole")
    tell.add_argument("--json", action="store_true", help="say it as JSON, null if there is no testbed")
    tell.set_defaults(run=_status)
    return parser


if __name__ == "__main__":
    sys.exit(main())
