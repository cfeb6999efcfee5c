# SPDX-License-Identifier: Apache-2.0
"""`penstock solve`: the contract of its JSON, its words and pictures, and what it says of bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.markov import MAP, PH
from penstock.performance.queueing.micro_batch import MicroBatch, solve_micro_batch
from penstock.performance.queueing.single_server import solve_map_map_1, solve_map_ph_1

BURSTY = MAP.mmpp([[-0.5, 0.5], [1.0, -1.0]], [20.0, 120.0])


@pytest.fixture
def bursty(tmp_path: Path) -> Path:
    """A MAP file as `penstock fit --map` writes it."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps(BURSTY.to_json()))
    return path


def strict(text: str) -> Any:
    """JSON without the literals that JSON does not have."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("exp:0.01", PH.exponential(mean=0.01)),
        ("erlang:2:10ms", PH.erlang(2, mean=0.01)),
        ("hyper2:0.01:1", PH.exponential(mean=0.01)),
    ],
)
def test_map_ph_1_as_json(bursty: Path, invoke: Callable[..., Any], text: str, service: PH) -> None:
    """One object with stable, utilisation, mean and percentiles, by the probability as it was written."""
    result = invoke(
        "solve", "map-ph-1", "--map", str(bursty), "--service", text, "--percentiles", "0.5,0.950", "--json"
    )
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    exact = solve_map_ph_1(BURSTY, service)
    assert document["stable"] is True
    assert document["utilisation"] == pytest.approx(BURSTY.rate * 0.01, rel=1e-9)
    assert document["mean"] == pytest.approx(exact.mean, rel=1e-9)
    assert list(document["percentiles"]) == ["0.5", "0.950"]
    assert list(document["percentiles"].values()) == pytest.approx(exact.percentiles([0.5, 0.95]).tolist(), rel=1e-9)


def test_a_hyperexponential_service_has_the_variability_asked_for(invoke: Callable[..., Any]) -> None:
    """hyper2:MEAN:SCV with Poisson arrivals is Pollaczek-Khinchine: m (1 + rho (1 + scv) / (2 (1 - rho)))."""
    for queue in ("map-ph-1", "m-g-1"):
        result = invoke("solve", queue, "--rate", "3000/min", "--service", "hyper2:10ms:7", "--json")
        assert strict(result.stdout)["mean"] == pytest.approx(0.01 * (1 + 0.5 * 8 / 2 / 0.5), rel=1e-9)


def test_a_service_time_can_come_from_a_file(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """ph:FILE holds alpha and T."""
    path = tmp_path / "service.json"
    path.write_text(json.dumps(PH.exponential(mean=0.005).to_json()))
    document = strict(invoke("solve", "m-g-1", "--rate", "100", "--service", f"ph:{path}", "--json").stdout)
    assert document["mean"] == pytest.approx(0.01, rel=1e-9)


def test_micro_batch_as_json(bursty: Path, invoke: Callable[..., Any]) -> None:
    """Record latency of the micro-batch queue, with cap and trigger."""
    options = ("--fixed", "0.3", "--per-record", "4ms", "--cap", "400", "--trigger", "1s", "--percentiles", "0.95")
    result = invoke("solve", "micro-batch", "--map", str(bursty), *options, "--json")
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    exact = solve_micro_batch(BURSTY, MicroBatch(0.3, 0.004, cap=400, trigger=1.0))
    assert document["mean"] == pytest.approx(exact.mean, rel=1e-9)
    assert document["percentiles"] == {"0.95": pytest.approx(exact.percentile(0.95), rel=1e-9)}
    assert document["utilisation"] == pytest.approx(exact.utilisation, rel=1e-9)


def test_map_map_1_as_json(bursty: Path, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Correlated service times come from a file of their own."""
    served = BURSTY.with_rate(150.0)
    path = tmp_path / "service.json"
    path.write_text(json.dumps(served.to_json()))
    document = strict(invoke("solve", "map-map-1", "--map", str(bursty), "--service-map", str(path), "--json").stdout)
    assert document["mean"] == pytest.approx(solve_map_map_1(BURSTY, served).mean, rel=1e-9)


def test_gi_g_1_gives_the_mean_and_refuses_the_rest(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Kingman's formula knows no percentiles: null where none were asked for, else an error that says why."""
    common = ("solve", "gi-g-1", "--rate", "50", "--scv", "3", "--service", "exp:10ms")
    document = strict(invoke(*common, "--json").stdout)
    # m (1 + rho / (1 - rho) (c_a + c_s) / 2)
    assert document["mean"] == pytest.approx(0.01 * (1 + 1 * (3 + 1) / 2), rel=1e-6)
    assert document["percentiles"] is None
    for option in (("--percentiles", "0.95"), ("--plot", str(tmp_path / "x.png"))):
        result = invoke(*common, *option)
        assert result.exit_code == 2
        assert f"{option[0]}: Kingman's formula gives only the mean" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("map-ph-1", "--service", "erlang:2:20ms"),
        ("m-g-1", "--service", "exp:20ms"),
        ("gi-g-1", "--service", "exp:20ms"),
        ("micro-batch", "--fixed", "0.3", "--per-record", "20ms"),
    ],
    ids=lambda a: a[0],
)
def test_a_saturated_queue_is_an_answer(arguments: tuple[str, ...], tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Exit code 0, stable false, times null in strict JSON, and the bound that a record's time must stay below."""
    result = invoke("solve", *arguments, "--rate", "60", "--json")
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    assert document["stable"] is False
    assert document["utilisation"] == pytest.approx(1.2, rel=1e-9)
    assert document["mean"] is None
    assert document["percentiles"] in (None, {"0.5": None, "0.95": None, "0.99": None})
    assert "saturated" in result.stderr
    assert "16.7 ms" in result.stderr  # 1 / 60 s


def test_people_get_a_table_and_a_picture(bursty: Path, tmp_path: Path, invoke: Callable[..., Any]) -> None:
    """Utilisation, mean and percentiles with their units on stdout; the distribution in the file."""
    path = tmp_path / "times.png"
    result = invoke("solve", "map-ph-1", "--map", str(bursty), "--service", "erlang:2:10ms", "--plot", str(path))
    assert result.exit_code == 0, result.output
    for words in ("MAP/PH/1", "utilisation", "latency, mean", "latency, p99", "waiting mean", "queue length mean"):
        assert words in result.stdout
    assert " ms" in result.stdout
    assert path.read_bytes().startswith(b"\x89PNG")


def test_of_several_fitted_processes_the_first_is_used_and_said(
    bursty: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """What `penstock fit --json` prints is taken as a map file."""
    fit = tmp_path / "fit.json"
    maps = [{**BURSTY.to_json(), "states": 2, "loss": 1.0}, MAP.poisson(1.0).to_json()]
    fit.write_text(json.dumps({"trace": {}, "maps": maps, "seconds": 1.0}))
    common = ("--service", "exp:10ms", "--json")
    several = invoke("solve", "map-ph-1", "--map", str(fit), *common)
    one = invoke("solve", "map-ph-1", "--map", str(bursty), *common)
    assert strict(several.stdout)["mean"] == strict(one.stdout)["mean"]
    assert "has 2 processes; the first (best) is used" in " ".join(several.stderr.split())


def test_times_far_from_a_second_are_readable(invoke: Callable[..., Any]) -> None:
    """Microseconds are told as such."""
    result = invoke("solve", "m-g-1", "--rate", "5e5", "--service", "exp:1us")
    assert "2 us" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("m-g-1", "--rate", "0", "--service", "exp:1"), "--rate: nothing would ever arrive at 0"),
        (("m-g-1", "--rate", "-5", "--service", "exp:1"), "--rate:"),
        (("m-g-1", "--rate", "1", "--scv", "2", "--service", "exp:1"), "--scv: Poisson"),
        (("map-ph-1", "--rate", "1", "--scv", "0", "--service", "exp:1"), "--scv: 0.0 must be positive"),
        (("map-ph-1", "--rate", "1", "--scv", "nan", "--service", "exp:1"), "--scv: nan must be positive"),
        (("map-ph-1", "--service", "exp:1"), "--map: give either --map FILE or --rate"),
        (("map-ph-1", "--rate", "1", "--service", "exp:0"), "--service: '0' must be above 0"),
        (("map-ph-1", "--rate", "1", "--service", "exp:1:2"), "--service: cannot read 'exp:1:2'; write exp:MEAN"),
        (("map-ph-1", "--rate", "1", "--service", "gamma:1:2"), "--service: cannot read"),
        (("map-ph-1", "--rate", "1", "--service", "det:1"), "--service: a constant time is not a phase-type"),
        (("map-ph-1", "--rate", "1", "--service", "erlang:1.5:1"), "--service: '1.5' phases"),
        (("map-ph-1", "--rate", "1", "--service", "hyper2:1:0.5"), "--service: a hyperexponential time has an SCV"),
        (("map-ph-1", "--rate", "1", "--service", "ph:nowhere.json"), "--service: nowhere.json cannot be read"),
        (("map-ph-1", "--map", "nowhere.json", "--service", "exp:1"), "--map: nowhere.json cannot be read"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--percentiles", "0.5,1"), "1 is outside (0, 1)"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--percentiles", "95"), "write 0.95"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--percentiles", "nan"), "'nan' is not a number"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--percentiles", "x"), "'x' is not a number; write a list"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--plot", "no/where.png"), "--plot: no is not a folder"),
        (("m-g-1", "--rate", "1", "--service", "exp:.1", "--plot", "x.jpg"), "--plot: x.jpg is not a picture's name"),
        (("micro-batch", "--rate", "1", "--fixed", "-1", "--per-record", "1ms"), "--fixed"),
        (("micro-batch", "--rate", "1", "--fixed", "0", "--per-record", "0"), "a batch must take some time"),
        (("micro-batch", "--rate", "1", "--fixed", "1", "--per-record", "1ms", "--trigger", "0"), "--trigger: '0'"),
    ],
)  # fmt: skip
def test_bad_input_names_the_option_and_the_way_out(
    here: Path, invoke: Callable[..., Any], arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2 and one clear message; no traceback."""
    result = invoke("solve", *arguments)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("not json", "is not JSON"),
        ("[1, 2]", "has no D0 and D1"),
        ('{"D0": [[-1]], "D1": [[2]]}', "is not an arrival process"),
        ('{"D0": [[-1]], "D1": [[NaN]]}', "is not an arrival process"),
        ('{"maps": [{"D0": [[-1]], "D1": [[1]]}, {"D0": [[-1]], "D1": [[0]]}]}', "maps[1] is not an arrival process"),
    ],
)
def test_a_wrong_map_file_is_told_with_its_fault(
    here: Path, invoke: Callable[..., Any], content: str, told: str
) -> None:
    """The file, the place in it and the broken condition."""
    (here / "map.json").write_text(content)
    result = invoke("solve", "map-ph-1", "--map", "map.json", "--service", "exp:1")
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"alpha": [1], "T": [[1]]}', "is not a phase-type distribution"),
        ('{"alpha": [0.5, 0.4], "T": [[-1, 0], [0, -1]]}', "alpha sums to 0.9"),
        ('{"D0": [[-1]], "D1": [[1]]}', "has no alpha and T"),
    ],
)
def test_a_service_that_is_no_phase_type_is_told_with_its_fault(
    here: Path, invoke: Callable[..., Any], content: str, told: str
) -> None:
    """The broken condition of alpha and T."""
    (here / "service.json").write_text(content)
    result = invoke("solve", "map-ph-1", "--rate", "1", "--service", "ph:service.json")
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


def test_independent_gaps_have_the_variability_asked_for(invoke: Callable[..., Any]) -> None:
    """--rate with --scv is a renewal process: more variable gaps, longer latency; SCV 1 is Poisson."""
    means = [
        strict(invoke("solve", "map-ph-1", "--rate", "50", "--scv", scv, "--service", "exp:10ms", "--json").stdout)[
            "mean"
        ]
        for scv in ("0.25", "1", "6")
    ]
    assert means[0] < means[1] < means[2]
    assert means[1] == pytest.approx(0.02, rel=1e-9)
    assert all(math.isfinite(mean) for mean in means)


def test_very_steady_arrivals_are_told_to_be_less_so(invoke: Callable[..., Any]) -> None:
    """An SCV that needs hundreds of phases is moved to what 32 give, and a note says so."""
    found = json.loads(
        invoke("solve", "map-ph-1", "--rate", "3", "--scv", "0.001", "--service", "exp:0.1", "--json").stdout
    )
    assert found["stable"]
    assert any("0.03125" in note for note in found["notes"])


def test_no_percentiles_has_its_reason(invoke: Callable[..., Any]) -> None:
    """Kingman's mean comes with a word on why there are no percentiles; an empty list of them is refused."""
    arguments = ("--rate", "3", "--service", "exp:0.1")
    found = json.loads(invoke("solve", "gi-g-1", *arguments, "--json").stdout)
    assert found["percentiles"] is None
    assert any("Kingman" in note for note in found["notes"])
    assert invoke("solve", "m-g-1", *arguments, "--percentiles", "").exit_code == 2
