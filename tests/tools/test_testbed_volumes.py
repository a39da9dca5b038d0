import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tools.testbed.plan import Plan
from tools.testbed.volumes import EXPORT, brick_volume, client_volume

_BLOCK = re.compile(r"volume (\S+)\n  type (\S+)\n((?:  option .+\n)*)(?:  subvolumes (.+)\n)?end-volume\n")

plans = st.builds(
    Plan,
    folder=st.just("/testbed"),
    data=st.just("/testbed/data"),
    data_is_new=st.booleans(),
    ports=st.lists(st.integers(1024, 65535), min_size=1, max_size=4, unique=True),
    n_nodes=st.integers(1, 4),
    read_delay_us=st.integers(0, 10_000),
    error_rate=st.floats(0, 1),
    server=st.just("/usr/sbin/glusterfsd"),
    client=st.just("/usr/sbin/glusterfs"),
)


def _translators(text: str) -> dict[str, tuple[str, dict[str, str], list[str]]]:
    """Read a volume file back: by name the type, the options, and the translators below."""
    assert "".join(match[0] for match in _BLOCK.finditer(text)) == re.sub(r"\n\n", "\n", text)
    return {
        name: (kind, dict(line.split(None, 2)[1:] for line in options.splitlines()), below.split())
        for name, kind, options, below in (match.groups("") for match in _BLOCK.finditer(text))
    }


@given(plans)
def test_every_translator_stands_on_those_before_it(plan: Plan) -> None:
    for daemon in plan.daemons:
        seen: set[str] = set()
        for name, (_, _, below) in _translators(daemon.volume).items():
            assert seen.issuperset(below)
            seen.add(name)


@given(plans)
def test_servers_listen_on_loopback_only_and_each_client_knows_them_all(plan: Plan) -> None:
    for brick, port in zip(plan.bricks, plan.ports, strict=True):
        kind, options, below = _translators(brick.volume)["server"]
        assert kind == "protocol/server"
        assert below == [EXPORT]
        assert options["transport.socket.bind-address"] == "127.0.0.1"
        assert options["transport.socket.listen-port"] == str(port)
        assert options[f"auth.addr.{EXPORT}.allow"] == "127.0.0.1"
    for client in plan.clients:
        ends = [options for kind, options, _ in _translators(client.volume).values() if kind == "protocol/client"]
        assert [(end["remote-host"], int(end["remote-port"])) for end in ends] == [("127.0.0.1", p) for p in plan.ports]
        assert {end["remote-subvolume"] for end in ends} == {EXPORT}


@given(plans)
def test_no_two_daemons_share_a_command_line_or_a_file(plan: Plan) -> None:
    assert len({tuple(daemon.argv) for daemon in plan.daemons}) == len(plan.ports) + plan.n_nodes
    assert len({path for daemon in plan.daemons for path in (daemon.volume_file, daemon.log)}) == 2 * len(plan.daemons)
    assert Plan.from_json(plan.to_json()) == plan


def test_reads_are_delayed_by_the_microseconds_asked_for_or_not_at_all() -> None:
    kind, options, _ = _translators(brick_volume("/data/brick0", port=5000, read_delay_us=1500))["delay"]
    assert kind == "debug/delay-gen"
    assert options == {"enable": "READ", "delay-duration": "1500", "delay-percentage": "100"}
    assert "delay" not in _translators(brick_volume("/data/brick0", port=5000, read_delay_us=0))


def test_a_brick_keeps_its_files_where_it_is_told() -> None:
    _, options, _ = _translators(brick_volume(Path("/data/brick0"), port=5000, read_delay_us=0))["posix"]
    assert options["directory"] == "/data/brick0"


def test_a_file_is_striped_over_the_bricks() -> None:
    kind, options, below = _translators(client_volume([5000, 5001], stripe="16MB"))["stripes"]
    assert (kind, options, below) == ("features/shard", {"shard-block-size": "16MB"}, ["distribute"])
