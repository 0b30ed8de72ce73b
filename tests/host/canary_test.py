"""All probes of Pyroscope's own canary pass as they do at a real server.

Pyroscope's own canary (profilecli canary-exporter, all probes), replayed: each answer passes the canary's own judgement, as the recorded answers
of a real server do."""
import base64
import collections
import json
import pathlib

import pytest
import pprof
import wire
from harness import Server

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded/pyroscope-canary.json").read_text())["requests"]
TYPE, SERVICE = "deadmans_switch:made_up:profilos:made_up:profilos", "pyroscope-canary-exporter"
PRIVATE = {"__name__", "__period_type__", "__period_unit__", "__profile_type__", "__service_name__", "__type__", "__unit__", "service_name"}


def stacks(answer):
    """{function names, leaf first: value} of a pprof message."""
    sums = collections.Counter()
    for names, values, _ in pprof.decode(answer)[1]:
        sums[names[::-1]] += values[0]
    return sums


def pairs(labels):
    return {pair.name: pair.value for pair in labels}


def taken(answer):
    return True


def merged(answer):
    return stacks(answer) == {("func1", "func2"): 10, ("func1",): 20}


def merged_otlp(answer):
    return stacks(answer) == {("func2", "func1"): 20, ("func1",): 40}


def has_type(answer):
    return TYPE in [one.ID for one in wire.ProfileTypesResponse.FromString(answer).profile_types]


def has_series(answer):
    return {"service_name": SERVICE, "__profile_type__": TYPE} in [pairs(one.labels) for one in wire.SeriesResponse.FromString(answer).labels_set]


def has_names(answer):
    return PRIVATE <= set(wire.LabelNamesResponse.FromString(answer).names)


def one_service(answer):
    return wire.LabelValuesResponse.FromString(answer).names == [SERVICE]


def series_of(answer):
    series, = wire.SelectSeriesResponse.FromString(answer).series
    return series


def one_point(answer):
    series = series_of(answer)
    return pairs(series.labels) == {"service_name": SERVICE} and len(series.points) == 1


def flame(answer, count):
    graph = wire.SelectMergeStacktracesResponse.FromString(answer).flamegraph
    return len(graph.names) == len(graph.levels) == count


def graph_of_two(answer):
    return flame(answer, 2)


def graph_of_three(answer):
    return flame(answer, 3)


def has_stats(answer):
    found = wire.GetProfileStatsResponse.FromString(answer)
    return found.data_ingested and found.oldest_profile_time > 0 and found.newest_profile_time > 0


def flamebearer(answer):
    found = json.loads(answer)["flamebearer"]
    return len(found["names"]) == 3 and len(found["levels"]) == 3


def exemplar_of(answer):
    point, = series_of(answer).points
    exemplar, = point.exemplars
    return exemplar


def has_exemplar(answer):
    exemplar = exemplar_of(answer)
    labels = pairs(exemplar.labels)
    return exemplar.value == 30 and exemplar.profile_id and labels["__profile_type__"] == TYPE and labels["job"] == "canary-exporter"


# One for each recorded request; the last two are one probe, exemplars.
PROBES = [("push", taken), ("OTLP JSON", taken), ("OTLP protobuf", taken), ("SelectMergeProfile", merged), ("SelectMergeProfile of OTLP", merged_otlp),
          ("ProfileTypes", has_type), ("Series", has_series), ("LabelNames", has_names), ("LabelValues", one_service), ("SelectSeries", one_point),
          ("SelectMergeStacktraces", graph_of_three), ("SelectMergeSpanProfile", graph_of_two), ("GetProfileStats", has_stats), ("render", flamebearer),
          ("render-diff", flamebearer), ("exemplars", has_exemplar), ("profile of an exemplar", graph_of_three)]


@pytest.fixture(scope="module")
def answers(edgeprof, tmp_path_factory):
    """(status, answer) of each request; the last asks for the profile that the exemplar names."""
    found = []
    with Server(edgeprof, str(tmp_path_factory.mktemp("canary") / "db"), "--config", keep_all(tmp_path_factory)) as server:
        for request in RECORDED:
            body = base64.b64decode(request["body_b64"])
            if found and request is RECORDED[-1] and found[-1][0] == 200:
                theirs = exemplar_of(base64.b64decode(RECORDED[-2]["answer_b64"])).profile_id
                body = body.replace(theirs.encode(), exemplar_of(found[-1][1]).profile_id.encode())
            found.append(server.request(request["method"], request["path"], body or None, request["headers"]))
    return found


def keep_all(tmp_path_factory):
    """The profiles' times are those of the recording."""
    config = tmp_path_factory.mktemp("config") / "serve.conf"
    config.write_text("[keep]\nfine = 0\nfive-minutes = 0\nfor = forever\n")
    return str(config)


def test_all_recorded():
    assert len(PROBES) == len(RECORDED) == 17


@pytest.mark.parametrize("index", range(17), ids=[name for name, _ in PROBES])
def test_probe(answers, index):
    name, judge = PROBES[index]
    status, answer = answers[index]
    assert status == 200 == RECORDED[index]["status"], answer
    assert judge(answer), f"{name}: {answer}"
    if name != "GetProfileStats":  # this server's figure came late
        assert judge(base64.b64decode(RECORDED[index]["answer_b64"])), f"{name}: the real server's answer passes too"
