"""All probes of Pyroscope's own canary pass as they do at a real server.

Pyroscope's own canary (profilecli canary-exporter, all probes), replayed: each answer passes the canary's own judgement, as the recorded answers
of a real server do."""
import base64
import json
import pathlib

import pytest
from pprof import every, fields, numbers, one

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded/pyroscope-canary.json").read_text())["requests"]
TYPE, SERVICE = b"deadmans_switch:made_up:profilos:made_up:profilos", b"pyroscope-canary-exporter"
PRIVATE = {b"__name__", b"__period_type__", b"__period_unit__", b"__profile_type__", b"__service_name__", b"__type__", b"__unit__", b"service_name"}


def stacks(answer):
    """{function names, leaf first, joined by '>': value} of a pprof message."""
    found = fields(answer)
    strings = every(found, 6)
    functions = {one(fields(row), 1): strings[one(fields(row), 2)] for row in every(found, 5)}
    locations = {one(fields(row), 1): b"".join(functions[one(fields(line), 1)] for line in every(fields(row), 4)) for row in every(found, 4)}
    sums = {}
    for row in every(found, 2):
        name = b">".join(locations[number_] for number_ in numbers(fields(row), 1))
        sums[name] = sums.get(name, 0) + numbers(fields(row), 2)[0]
    return sums


def pairs(rows):
    return {one(fields(pair), 1): one(fields(pair), 2) for pair in rows}


def taken(answer):
    return True


def merged(answer):
    return stacks(answer) == {b"func1>func2": 10, b"func1": 20}


def merged_otlp(answer):
    return stacks(answer) == {b"func2>func1": 20, b"func1": 40}


def has_type(answer):
    return TYPE in [one(fields(row), 1) for row in every(fields(answer), 1)]


def has_series(answer):
    sets = [pairs(every(fields(row), 1)) for row in every(fields(answer), 2)]
    return {b"service_name": SERVICE, b"__profile_type__": TYPE} in sets


def has_names(answer):
    return PRIVATE <= set(every(fields(answer), 1))


def one_service(answer):
    return every(fields(answer), 1) == [SERVICE]


def one_point(answer):
    series, = every(fields(answer), 1)
    return pairs(every(fields(series), 1)) == {b"service_name": SERVICE} and len(every(fields(series), 2)) == 1


def flame(answer, count):
    graph = fields(one(fields(answer), 1))
    return len(every(graph, 1)) == count and len(every(graph, 2)) == count


def graph_of_two(answer):
    return flame(answer, 2)


def graph_of_three(answer):
    return flame(answer, 3)


def has_stats(answer):
    found = fields(answer)
    return one(found, 1) == 1 and one(found, 2) > 0 and one(found, 3) > 0


def flamebearer(answer):
    found = json.loads(answer)["flamebearer"]
    return len(found["names"]) == 3 and len(found["levels"]) == 3


def exemplar_of(answer):
    series, = every(fields(answer), 1)
    point, = every(fields(series), 2)
    exemplar, = every(fields(point), 4)
    return fields(exemplar)


def has_exemplar(answer):
    exemplar = exemplar_of(answer)
    labels = pairs(every(exemplar, 5))
    return one(exemplar, 4) == 30 and one(exemplar, 2) and labels[b"__profile_type__"] == TYPE and labels[b"job"] == b"canary-exporter"


# One for each recorded request; the last two are one probe, exemplars.
PROBES = [("push", taken), ("OTLP JSON", taken), ("OTLP protobuf", taken), ("SelectMergeProfile", merged), ("SelectMergeProfile of OTLP", merged_otlp),
          ("ProfileTypes", has_type), ("Series", has_series), ("LabelNames", has_names), ("LabelValues", one_service), ("SelectSeries", one_point),
          ("SelectMergeStacktraces", graph_of_three), ("SelectMergeSpanProfile", graph_of_two), ("GetProfileStats", has_stats), ("render", flamebearer),
          ("render-diff", flamebearer), ("exemplars", has_exemplar), ("profile of an exemplar", graph_of_three)]


@pytest.fixture(scope="module")
def answers(edgeprof, tmp_path_factory):
    """(status, answer) of each request; the last asks for the profile that the exemplar names."""
    from harness import Server
    found = []
    with Server(edgeprof, str(tmp_path_factory.mktemp("canary") / "db"), "--config", keep_all(tmp_path_factory)) as server:
        for request in RECORDED:
            body = base64.b64decode(request["body_b64"])
            if found and request is RECORDED[-1] and found[-1][0] == 200:
                theirs = one(exemplar_of(base64.b64decode(RECORDED[-2]["answer_b64"])), 2)
                body = body.replace(theirs, one(exemplar_of(found[-1][1]), 2))
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
