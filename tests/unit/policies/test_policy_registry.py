# SPDX-License-Identifier: Apache-2.0
"""Policies by name: ours, those of other packages, and what is said where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from tests.unit.policies.contexts import MEAN, P95, a_context, a_fork

from penstock.errors import ConfigurationError
from penstock.policies import (
    Need,
    PolicyEntry,
    PolicyOption,
    broken_policies,
    default_policy,
    make_policy,
    policy_entries,
    policy_entry,
    reads_objective,
    registry,
)
from penstock.policies.fixed import FixedPolicy
from penstock.policies.mead.policy import MeadPolicy
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import Policy, PolicyContext
from penstock.records import Allocation, Objective
from penstock.testing import a_request

OURS = (
    "mead", "mead-published", "m/g/1", "gi/g/1", "elastic", "gesscale", "gesscale+", "threshold", "rules", "schedule",
    "fixed",
)  # fmt: skip


@dataclass(frozen=True)
class ToyPoint:
    """An entry point that gives an object, or fails as an import does."""

    name: str
    what: object
    value: str = "toys.policies:toy"
    dist: None = None

    def load(self) -> object:
        """The object."""
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Have packages register policies for one test."""

    def points(*found: ToyPoint) -> None:
        monkeypatch.setattr(registry, "entry_points", lambda *, group: found if group == "penstock.policies" else ())
        registry.found_policies.cache_clear()

    yield points
    registry.found_policies.cache_clear()


class ToyPolicy(FixedPolicy):
    """Keeps what there is, loudly.

    And has more to say.
    """

    name = "toy"

    def __init__(self, context: PolicyContext, *, loudness: int = 3) -> None:
        super().__init__()
        self.context, self.loudness = context, loudness


def test_every_name_gives_a_policy_of_that_name() -> None:
    """Each known name builds a policy that calls itself so, without any options."""
    assert tuple(policy_entries()) == OURS
    for name in policy_entries():
        entry = policy_entry(name)
        assert (entry.name, make_policy(name, a_context(MEAN)).name) == (name, name)
        assert entry.summary
        assert all(option.meaning for option in entry.options), f"an option of {name} is not explained"


def test_options_reach_the_policy() -> None:
    """Options as a settings file writes them become the policy's values."""
    made = make_policy("threshold", a_context(), {"upper": 0.8, "lower": 0.3, "every_seconds": "5s"})
    assert made == ThresholdPolicy(0.8, 0.3, 5.0)
    fixed = make_policy("fixed", a_context(), {"executors": 2, "cpu_share": 0.7, "every_seconds": 20})
    assert isinstance(fixed, FixedPolicy)
    assert (fixed.allocation, fixed.every_seconds) == (Allocation(2, 0.7), 20.0)
    mead = make_policy("mead", a_context(), {"window": 5000, "rescue": False})
    assert isinstance(mead, MeadPolicy)
    assert (mead.options.window, mead.options.rescue) == (5000, None)


@pytest.mark.parametrize("name", OURS)
def test_the_listed_defaults_are_the_ones_in_use(name: str) -> None:
    """A policy built with all its listed defaults decides as one that was given none."""
    entry = policy_entry(name)
    given = {option.name: option.default for option in entry.options}
    bare, explicit = (make_policy(name, a_context(MEAN), options) for options in ({}, given))
    assert bare.every_seconds == explicit.every_seconds
    if isinstance(bare, MeadPolicy):
        assert isinstance(explicit, MeadPolicy)
        assert bare.options == explicit.options
    request = a_request()
    decisions = [replace(policy.plan(request), decision_id="") for policy in (bare, explicit)]
    assert decisions[0] == decisions[1]


def test_what_an_entry_says_is_plain_data() -> None:
    """The listing of a policy has its options with defaults and meanings, and what it needs."""
    listed = policy_entry("threshold").to_json()
    assert [option["name"] for option in listed["options"]] == [
        "upper",
        "lower",
        "every_seconds",
        "nodes",
        "seed",
        "rules",
    ]
    assert listed["options"][0] == {
        "name": "upper", "default": 0.7, "meaning": "utilisation above which one level is added (U_H)"
    }  # fmt: skip
    assert (listed["needs"], listed["default_for"], listed["reads_objective"]) == ([], "keep up", False)
    mead = policy_entry("mead").to_json()
    assert mead["needs"] == ["a latency bound", "arrival times"]
    assert mead["cpu_shares"] == [0.4, 0.55, 0.7, 0.85, 1.0]
    assert "most_levels_down" in [option["name"] for option in mead["options"]]
    assert "name" not in [option["name"] for option in mead["options"]]


@pytest.mark.parametrize(
    ("name", "options", "field", "words"),
    [
        (
            "mead2",
            {},
            "policy",
            r"mean mead\? Known: mead, mead-published, m/g/1, gi/g/1, elastic, gesscale, gesscale\+, ",
        ),
        ("", {}, "policy", "known: mead, mead-published"),
        ("threshold", {"uper": 0.7}, "policy threshold", r"uper: .* no such option; did you mean upper\? It has "),
        ("mead", {"windows": 5}, "policy mead", r"windows: .* no such option; did you mean window\? It has queues, "),
        ("m/g/1", {"queues": "map"}, "policy m/g/1", "queues: m/g/1 has no such option"),
        ("threshold", {"upper": "high"}, "upper", "not a number"),
        ("threshold", {"upper": True}, "upper", "not a number"),
        ("threshold", {"upper": 1.5}, "upper", "outside"),
        ("threshold", {"every_seconds": "soon"}, "every_seconds", "duration"),
        ("fixed", {"executors": 1.5}, "executors", "whole number"),
        ("fixed", {"executors": True}, "executors", "whole number"),
        ("fixed", {"cpu_share": 0.5}, "executors", "beside cpu_share"),
        ("fixed", {"executors": 1, "cpu_share": "all"}, "cpu_share", "not a number"),
    ],
)
def test_unknown_names_and_bad_values_are_reported(name: str, options: dict[str, Any], field: str, words: str) -> None:
    """An unknown policy or option lists the known ones; a bad value names its field."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        make_policy(name, a_context(), options)
    assert caught.value.field == field


def test_every_mistake_is_listed_at_once() -> None:
    """Two unknown options and a path without a bound are three faults of one error."""
    with pytest.raises(ConfigurationError, match="3 mistakes") as caught:
        make_policy("mead", a_context(Objective()), {"speed": 3, "colour": "red"})
    assert len(caught.value.faults) == 3


def test_a_policy_that_plans_for_a_bound_is_refused_without_one() -> None:
    """Every path without a bound is named, with what to do about it."""
    slow, quick = ("parser", "counter"), ("parser", "matcher")
    for name in ("mead", "mead-published", "m/g/1", "gi/g/1"):
        assert Need.LATENCY_BOUND in policy_entry(name).needs
        with pytest.raises(ConfigurationError, match=r"the path parser -> matcher has none; give one, such as p95"):
            make_policy(name, a_fork({slow: P95, quick: Objective()}))
        make_policy(name, a_fork(dict.fromkeys((slow, quick), MEAN)))
    with pytest.raises(ConfigurationError, match=r"objective: gi/g/1 queues give means only; bound the mean"):
        make_policy("gi/g/1", a_fork({slow: P95, quick: MEAN}))
    for name in ("elastic", "threshold", "rules", "schedule", "fixed"):
        make_policy(name, a_context(Objective()))


def test_an_object_is_a_policy_if_it_has_the_parts_of_one() -> None:
    """A policy object is used as it is; what lacks a part is refused by name, and options are not for objects."""
    policy = ThresholdPolicy()
    assert make_policy(policy, a_context()) is policy
    with pytest.raises(ConfigurationError, match="it lacks every_seconds, plan"):
        make_policy(EntryPoint("a", "b", "c"), a_context())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="policy_options: an object has its options already"):
        make_policy(policy, a_context(), {"upper": 0.8})


def test_the_default_policy_plans_for_what_is_wanted() -> None:
    """With a latency bound on every path it is MEAD; where one has only to keep up, or none is known, threshold."""
    assert default_policy([P95]) == "mead"
    assert default_policy([P95, Objective("mean", 1.0)]) == "mead"
    assert default_policy([P95, Objective()]) == "threshold"
    assert default_policy([Objective()]) == "threshold"
    assert default_policy([]) == "threshold"


def test_it_is_known_which_policies_read_the_objective() -> None:
    """Ours by their entries; of somebody else's object, as it says itself, and else that it does."""
    context = a_context(MEAN)
    assert {name for name in OURS if reads_objective(make_policy(name, context))} == {
        "mead", "mead-published", "m/g/1", "gi/g/1"
    }  # fmt: skip

    class Deaf(ToyPolicy):
        reads_objective = False

    assert reads_objective(ToyPolicy(context))
    assert not reads_objective(Deaf(context))


# --- policies of other packages ------------------------------------------------------------------------------------


def test_a_package_registers_a_class(register: Register) -> None:
    """A class that takes the context is listed after ours with its first line and options, and built like ours."""
    register(ToyPoint("toy", ToyPolicy))
    assert tuple(policy_entries()) == (*OURS, "toy")
    entry = policy_entry("toy")
    assert entry.summary == "Keeps what there is, loudly."
    assert entry.options == (PolicyOption("loudness", 3, ""),)
    assert entry.reads_objective
    context = a_context()
    made = make_policy("toy", context, {"loudness": 11})
    assert isinstance(made, ToyPolicy)
    assert (made.context, made.loudness) == (context, 11)
    with pytest.raises(ConfigurationError, match="pitch: toy has no such option; it has loudness"):
        make_policy("toy", context, {"pitch": 1})


def test_a_package_registers_an_entry(register: Register) -> None:
    """A `PolicyEntry` is taken as it is, with its needs."""

    def build(context: PolicyContext) -> Policy:
        return ToyPolicy(context)

    entry = PolicyEntry("toy", "a toy", build, needs=frozenset({Need.LATENCY_BOUND}))
    register(ToyPoint("toy", entry))
    assert policy_entry("toy") is entry
    assert isinstance(make_policy("toy", a_context()), ToyPolicy)
    with pytest.raises(ConfigurationError, match="toy plans for a latency bound"):
        make_policy("toy", a_context(Objective()))


def test_a_name_that_is_taken_is_refused(register: Register) -> None:
    """Nobody replaces a policy of ours, or of another package, without being noticed; all others go on."""
    register(ToyPoint("mead", ToyPolicy), ToyPoint("toy", ToyPolicy))
    assert isinstance(make_policy("mead", a_context()), MeadPolicy)
    assert isinstance(make_policy("toy", a_context()), ToyPolicy)
    assert [(broken.name, broken.reason) for broken in broken_policies()] == [
        ("mead", "a policy of Penstock has this name; register it under another")
    ]
    register(ToyPoint("toy", ToyPolicy, "toys:a"), ToyPoint("toy", ToyPolicy, "toys:b"))
    assert tuple(policy_entries()) == OURS
    assert len(broken_policies()) == 2
    with pytest.raises(ConfigurationError, match="'toy' of toys:a cannot be used: toys:b has this name too"):
        make_policy("toy", a_context())


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (ImportError("no module named toys"), "ImportError: no module named toys"),
        (RuntimeError("boom"), "RuntimeError: boom"),
        (SystemExit("this needs a licence"), "SystemExit: this needs a licence"),
        (42, "42 is neither a PolicyEntry nor something to call"),
        (PolicyEntry("doll", "a doll", ToyPolicy), "its entry is named 'doll'; give both the same name"),
        (int, "its parameters cannot be read"),
    ],
)
def test_a_policy_that_cannot_be_loaded_fails_only_where_it_is_named(
    register: Register, what: object, words: str
) -> None:
    """All others can be listed and built; where it is named, the message says whose it is and what went wrong."""
    register(ToyPoint("toy", what), ToyPoint("other", ToyPolicy))
    assert tuple(policy_entries()) == (*OURS, "other")
    assert isinstance(make_policy("threshold", a_context()), ThresholdPolicy)
    assert default_policy([P95]) == "mead"
    (broken,) = broken_policies()
    assert (broken.name, broken.origin) == ("toy", "toys.policies:toy")
    assert words in broken.reason
    with pytest.raises(ConfigurationError, match=f"policy: 'toy' of toys.policies:toy cannot be used: .*{words}"):
        make_policy("toy", a_context())


def test_a_registered_policy_that_cannot_be_built_is_reported(register: Register) -> None:
    """What it raises is somebody's fault but not Penstock's: the message names the policy and what was wrong."""

    class Contextless(FixedPolicy):
        def __init__(self) -> None:
            super().__init__()

    def broken(context: PolicyContext) -> Policy:
        raise KeyError("colour")

    register(ToyPoint("contextless", Contextless), ToyPoint("broken", broken), ToyPoint("none", lambda _: None))
    with pytest.raises(ConfigurationError, match=r"policy contextless: cannot be built: TypeError: .*PolicyContext"):
        make_policy("contextless", a_context())
    with pytest.raises(ConfigurationError, match=r"policy broken: cannot be built: KeyError: 'colour'"):
        make_policy("broken", a_context())
    with pytest.raises(ConfigurationError, match=r"policy none: None is not a policy; it lacks name, every_seconds"):
        make_policy("none", a_context())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"name": ""}, "name: '' is not a name; give the policy one, a text that decisions show"),
        ({"name": 3}, "name: 3 is not a name"),
        ({"every_seconds": 0.0}, "every_seconds: 0.0 must be a positive time, in seconds"),
        ({"every_seconds": None}, "every_seconds: None must be a positive time"),
        ({"every_seconds": float("nan")}, "every_seconds: nan must be a positive time"),
        ({"every_seconds": "10s"}, "every_seconds: '10s' must be a positive time"),
        ({"watch": lambda look: ()}, "watch: it comes with close; add close, which ends what watch has started"),
        ({"plan": None}, "plan: None cannot be called"),
    ],
)
def test_an_object_with_wrong_parts_is_refused(parts: dict[str, Any], words: str) -> None:
    """A part that would fail later, or be overlooked without a word, is refused with its name and what to do."""
    policy = FixedPolicy()
    for part, value in parts.items():
        setattr(policy, part, value)
    with pytest.raises(ConfigurationError, match=words):
        make_policy(policy, a_context())


def test_a_class_in_place_of_an_object_is_refused() -> None:
    """It has the parts of a policy, but nobody has built it."""
    with pytest.raises(ConfigurationError, match=r"policy: ToyPolicy is a class; give an object, such as ToyPolicy\("):
        make_policy(ToyPolicy, a_context())  # type: ignore[arg-type]


def test_an_object_speaks_for_itself_whatever_it_is_called(register: Register) -> None:
    """Whether it reads the objective is the object's own word, even where a registered policy has its name."""

    class Namesake(FixedPolicy):
        name, reads_objective = "mead", False

    assert not reads_objective(Namesake())


def test_a_misspelt_policy_is_asked_back() -> None:
    """An unknown policy is refused with the nearest name, and all that there are."""
    with pytest.raises(ConfigurationError, match=r"unknown policy 'meed'; did you mean mead\? Known: mead, "):
        make_policy("meed", a_context())
