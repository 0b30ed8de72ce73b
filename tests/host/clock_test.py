"""A server whose clock is years ahead or behind deletes nothing and says so in one line; after a long time off it deletes again when profiles confirm the clock.

A server whose own clock is wrong loses nothing: profiles age by time that passes until the clock is right or confirmed. The clock is
simulated (fleet_clock.c)."""
import pytest

from fleet import DAY, Fleet, HOUR, START, Site
from generate import message, module, nodes, origin, profile
from harness import wait_until

pytestmark = pytest.mark.all

YEAR = 365 * DAY
AHEAD, BEHIND, AGAIN, BELIEVED = "days ahead of", "days behind", "the clock is right again", "the clock is believed"

UNDATED = message(1 << 40, 0, origin("undated", [], "dev"), [module(4096, 4096, 0, b"\1" * 20, "/opt/app")], nodes([0], [4100]),
                  [profile({1: 3}, start=9 * 10**9, duration=10**9)], unix_minus_uptime=0, last=True)


def said(site):
    """Lines about the clock."""
    return [line for line in site.server.stderr().splitlines() if "the clock is" in line]


@pytest.fixture
def fleet(rng):
    return Fleet(rng, devices=4, versions=1, days=4, every=1, size=60)


@pytest.fixture
def start(shipped, build, folder):
    """start(now): a server on one database whose clock shows `now`."""
    sites = []

    def begin(now, *arguments):
        sites.append(Site(shipped, str(build / "tests/tools/fleet_clock.so"), folder, *arguments, now=now))
        return sites[-1]

    yield begin
    assert sites[-1].server.stop() == 0


def live(site, fleet, hours):
    """A right clock for these hours, with profiles of each."""
    for number in hours:
        now = START + number * HOUR
        site.clock.set(now, passed=HOUR)
        assert not fleet.hour(site.connections, now)
        site.settle()
    return now


def lost(site, fleet):
    """Hours of which the server has less than it acknowledged."""
    return [((hour - START) // HOUR, said, right) for (service, hour), right in sorted(fleet.sums.items()) if (said := site.hour(service, hour)) != right]


def test_far_ahead_at_boot(start, fleet):
    site = start(START)
    now = live(site, fleet, range(1, 31))
    assert not lost(site, fleet) and site.server.stop() == 0
    site = start(now + 5 * YEAR)
    site.settle()
    assert not lost(site, fleet), "deleted by a wrong clock"
    assert len(said(site)) == 1 and AHEAD in said(site)[0], site.server.stderr()
    for number in range(31, 58):  # the devices know better, for more than a day
        site.clock.set(START + number * HOUR + 5 * YEAR, passed=HOUR)
        assert not fleet.hour(site.connections, START + number * HOUR)
        site.settle()
    assert not lost(site, fleet), "profiles that contradict the clock confirm nothing"
    live(site, fleet, range(58, 61))
    assert not lost(site, fleet), "after the correction"
    assert len(said(site)) == 2 and AGAIN in said(site)[1], site.server.stderr()


def test_ahead_while_it_runs(start, fleet):
    site = start(START, "--keep", "2d")
    now = live(site, fleet, range(1, 25))
    site.clock.set(now + 30 * DAY, passed=0)
    site.settle()
    assert not lost(site, fleet) and AHEAD in site.server.stderr()
    live(site, fleet, range(25, 28))
    assert not lost(site, fleet)


def test_far_behind_at_boot(start, fleet):
    site = start(START)
    now = live(site, fleet, range(1, 20))
    assert site.server.stop() == 0
    site = start(now - 20 * YEAR)
    site.settle()
    assert not lost(site, fleet) and len(said(site)) == 1 and BEHIND in said(site)[0], site.server.stderr()
    assert site.server.push(UNDATED) == 200, "dated by the server's clock"
    site.settle()
    before = site.server.total("undated", **{"from": "0"})
    for number in (20, 21):  # devices with a right clock are not refused
        site.clock.set(START + number * HOUR - 20 * YEAR, passed=HOUR)
        assert not fleet.hour(site.connections, START + number * HOUR), fleet.statuses
        site.settle()
    live(site, fleet, range(22, 25))
    assert before and site.server.total("undated", **{"from": "0"}) == before, "what came under the wrong clock stays, too"
    assert not lost(site, fleet) and AGAIN in site.server.stderr()


def test_long_off(start, fleet):
    """A server that was off for a month deletes by age again when profiles show that time has passed."""
    site = start(START)
    live(site, fleet, range(1, 20))
    old = dict(fleet.sums)
    assert site.server.stop() == 0
    later = 24 * 30
    site = start(START + later * HOUR)
    site.settle()
    assert not lost(site, fleet) and AHEAD in site.server.stderr()
    live(site, fleet, range(later + 1, later + 16))
    assert wait_until(lambda: BELIEVED in site.server.stderr()), site.server.stderr()
    site.settle()
    assert not any(site.hour(*key) for key in old), "old hours go"
    for key in old:
        del fleet.sums[key]
    assert not lost(site, fleet), "new ones stay"
