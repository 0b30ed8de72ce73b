"""A small fleet of several versions over simulated days: all is accepted, the newest day is whole, the size and the dictionary stay bounded.

A fleet over simulated days: the server accepts all but profiles of the future, --max-size holds, the newest 24 hours are always
whole, and what vanished versions had in the dictionary goes. FLEET: devices, versions, days, MiB
of --max-size, hours between two profiles of a device."""
import hashlib
import os

import pytest

from fleet import DAY, Fleet, HOUR, Site, START

pytestmark = pytest.mark.all

SHORT = "25 4 4 1 2"
SERVICES = ("gateway", "camera")
MIB = 1 << 20


@pytest.fixture
def plan():
    return tuple(map(int, os.environ.get("FLEET", SHORT).split()))


@pytest.fixture
def fleet(plan, rng):
    devices, versions, days, _, every = plan
    return Fleet(rng, devices, versions, days, every)


@pytest.fixture
def site(plan, shipped, build, folder):
    found = Site(shipped, str(build / "tests/tools/fleet_clock.so"), folder, "--max-size", f"{plan[3]}M")
    yield found
    assert found.server.stop() == 0


class Day:
    """What is looked at after each day."""

    def __init__(self, site, fleet, limit):
        self.site, self.fleet, self.limit = site, fleet, limit
        self.kept, self.live, self.most = set(), [], {}

    def check_hours(self, now):
        """The newest 24 hours are whole. An older one is whole, or gone for good."""
        fleet, hours = self.fleet, set()
        for hour in sorted({hour for _, hour in fleet.sums}):
            for service in SERVICES:
                said, right = self.site.hour(service, hour), fleet.sums[service, hour]
                newest = hour >= now - 24 * HOUR
                part = said == 0 or (said < right and (service, hour) in fleet.odd)  # what a device sends of an hour that is gone makes a new one
                assert said == right or (part and not newest), f"{service}: hour {(hour - now) // HOUR}: {said} of {right}"
                if said:
                    hours.add(hour)
                fleet.sums[service, hour] = said
        return len(hours)

    def check_size(self):
        used, file = self.site.used()
        assert used <= self.limit, f"{used / MIB:.1f} of {self.limit / MIB:.1f} MiB"
        assert file <= max(self.limit * 4 / 3, self.limit + 4 * MIB), f"a file of {file / MIB:.1f} MiB"
        return used, file

    def check_dictionary(self):
        """Nothing is left of a version that was not there in the last three days."""
        self.live = [*self.live[-3:], self.site.live_versions()]
        there = set().union(*self.live)
        builds = {hashlib.sha1(version.name.encode()).hexdigest(): version.name for version in self.fleet.versions}
        left = {builds[build] for build in self.site.builds() if build in builds}
        rows = self.site.rows()
        if len(self.live) == 4:
            assert left <= there, f"versions that are gone: {left - there}"
            assert rows["node"] <= len(there) * self.fleet.size + 1
        return rows, there


def report_steps(site, figure):
    """How long the keeper's steps took; half and 99 of 100 of them are below a power of two."""
    steps, spent, longest, bins = site.clock.steps()
    for name, part in (("median", 0.5), ("p99", 0.99)):
        at = next(i for i in range(len(bins)) if sum(bins[:i + 1]) >= part * steps)
        figure(f"fleet_keeper_step_{name}_ms", f"< {2 ** (at + 1) / 1000:.3g}", "ms")
    figure("fleet_keeper_step_longest_ms", f"{longest / 1e6:.1f}", "ms")
    figure("fleet_keeper_steps", steps, f"in {spent / 1e9:.1f} s")


def live(site, fleet, day, days, peak=0):
    """The days of a fleet; returns the largest size of the database with its log."""
    for number in range(1, days * 24 + 1):
        now = START + number * HOUR
        site.clock.set(now)
        wrong = fleet.hour(site.connections, now)
        assert not wrong, f"day {number / 24:.1f}: {wrong[:5]} {fleet.statuses} {site.server.stderr()[-500:]}"
        site.settle()
        peak = max(peak, sum(site.files()))
        if number % 24 == 0:
            hours = day.check_hours(now)
            used, file = day.check_size()
            rows, there = day.check_dictionary()
            print(f"day {number // 24}: sent {fleet.sent}, {hours} hours, used {used / MIB:.1f} MiB, file {file / MIB:.1f} MiB, memory {site.memory()[0]:.0f} MiB,"
                  f" versions {len(there)}, {rows}", flush=True)
    return peak


def grow_old(site, fleet, now):
    """Twenty days in which only the newest version sends, once a day."""
    fleet.devices, fleet.every = [device for device in fleet.devices if device.version == len(fleet.versions) - 1], 1
    for _ in range(20):
        now += DAY
        site.clock.set(now)
        assert not fleet.hour(site.connections, now), fleet.statuses
        site.settle()


def test_fleet(site, fleet, plan, figure):
    devices, versions, days, limit, _ = plan
    peak = live(site, fleet, Day(site, fleet, limit * MIB), days)
    figure("fleet_profiles", fleet.sent - fleet.refused, f"of {devices} devices and {versions} versions in {days} days; {fleet.refused} refused, hours ahead of time")
    figure("fleet_files_peak_mib", f"{peak / MIB:.1f}", f"MiB, with the log; --max-size {limit}M")
    memory = site.memory()[1]
    figure("fleet_memory_mib", f"{memory:.0f}", "MiB")
    assert memory < 256
    report_steps(site, figure)
    before = site.rows()
    assert before["module"] > 2 and fleet.refused > 0
    grow_old(site, fleet, START + days * DAY)
    after, newest = site.rows(), fleet.versions[-1]
    figure("fleet_dictionary", f"{before['node']} to {after['node']}", f"nodes; processes {before['origin']} to {after['origin']}")
    assert site.live_versions() == {newest.name} and after["node"] <= fleet.size + 1 and after["module"] <= 3 and after["labels"] <= newest.OPERATIONS
