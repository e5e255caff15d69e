# SPDX-License-Identifier: GPL-2.0-or-later
"""The published costs of the papers' hardware (tests/paper/profiles/*.toml): for the
card's property timing=, and for scripts/bench --paper."""

import ast
import operator
import os
import re
import tomllib

from unetmm_tools import REPO

PAPER = os.path.join(REPO, "tests", "paper")
PROFILES = os.path.join(PAPER, "profiles")

# UNETMM_COSTS of hw/net/unetmm/timing/timing.h
CARD_COSTS = ("fetch", "gather_byte", "place_byte", "packet", "ack", "complete",
              "hit_read", "hit_write", "hit_head", "miss", "entry", "lock",
              "insert", "evict", "report", "resume", "arrive")
PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}


class PaperError(Exception):
    """One sentence for the user."""


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub,
             ast.Mult: operator.mul, ast.Div: operator.truediv}


def formula(node, values):
    """The number that a formula is; nothing but names, numbers and + - * /."""
    if isinstance(node, ast.Expression):
        return formula(node.body, values)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](formula(node.left, values),
                                        formula(node.right, values))
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    raise PaperError(f"a formula has {ast.dump(node)}, which is not allowed")


def profile_names():
    """The names of all profiles."""
    return sorted(name.removesuffix(".toml") for name in os.listdir(PROFILES))


NEEDS = {"published": "source", "derived": "formula", "fitted": "point",
         "assumed": "source"}


class Profile:
    """A file of costs; values by name, in the unit that the file says.

    changed, given  {name: factor}, {name: value} of inputs that are not the file's
    folder          of the file, in place of PROFILES
    """

    def __init__(self, name, changed=None, given=None, folder=None):
        self.path = os.path.join(folder or PROFILES, name + ".toml")
        with open(self.path, "rb") as file:
            self._text = file.read().decode(errors="replace")
        try:
            self.entries = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise PaperError(f"{os.path.relpath(self.path, REPO)}: {error}") from None
        self.name = name
        self.values = {}
        self.used = set()
        for key, entry in self.entries.items():
            self.values[key] = given[key] if given and key in given else \
                self._value(key, entry) * (changed or {}).get(key, 1)

    def _value(self, key, entry):
        kind = entry.get("class") if isinstance(entry, dict) else None
        if kind not in NEEDS or NEEDS[kind] not in entry or "unit" not in entry:
            raise self.error(key, "needs a unit, a class (" + ", ".join(NEEDS) + ") and its reason")
        try:
            if kind != "derived":
                return float(entry["value"])
            return formula(ast.parse(entry["formula"], mode="eval"), self.values)
        except KeyError:
            raise self.error(key, "has no value") from None
        except (TypeError, ValueError, SyntaxError, ZeroDivisionError, PaperError) as error:
            raise self.error(key, str(error)) from None

    def error(self, key, text):
        """A PaperError that names the file, the line and the key."""
        begin = re.search(rf"^[ \t]*\[?[ \t]*{re.escape(key)}[ \t]*[\]=.]", self._text, re.M)
        line = self._text.count("\n", 0, begin.start() if begin else 0) + 1
        return PaperError(f"{os.path.relpath(self.path, REPO)}:{line}: {key}: {text}")

    def __getitem__(self, key):
        self.used.add(key)
        return self.values[key]

    def unit(self, key):
        """The unit of a value."""
        return self.entries[key]["unit"]

    def cost(self, key):
        """The value as tests/paper takes it: ps, fs a byte, or a number."""
        value, unit = self[key], self.unit(key)
        if unit in PS:
            return round(value * PS[unit])
        if unit.endswith("/B") and unit[:-2] in PS:
            return round(value * PS[unit[:-2]] * 1000)
        rates = {"Gb/s": 8e6, "Mb/s": 8e9, "GB/s": 1e6}
        if unit in rates:
            return round(rates[unit] / value)
        return round(value)

    def costs(self, **names):
        """{cost of the program: value}, by the names that it has here."""
        return {cost: self.cost(key) for cost, key in names.items()}


class Inputs:
    """All profiles; `changed` is {(profile, name): factor}, `given` {(profile, name): value}."""

    def __init__(self, changed=None, given=None):
        for name in profile_names():
            setattr(self, name, Profile(name, *({
                key: number for (of, key), number in (numbers or {}).items()
                if of == name} for numbers in (changed, given))))

    def profiles(self):
        """All profiles."""
        return list(vars(self).values())

    def used(self):
        """{profile: names} that were asked for since the last call."""
        found = {p.name: p.used for p in self.profiles() if p.used}
        for p in self.profiles():
            p.used = set()
        return found


def pca200(inputs, rate="oc3", tlb=False):
    """Costs of the PCA-200; without a TLB nothing is looked up in one.

    The further cost of several cells is fitted, for Figure 5 only (atm_round()).
    """
    p = inputs.pca200
    costs = p.costs(post="post", fetch="fetch", arrive="arrive",
                    cell_bytes="cell_bytes", cell_payload="cell_payload",
                    cell_trailer="cell_trailer", wire_byte=rate,
                    switch_delay="switch_delay")
    costs.update(source=SOURCE_PINNED, switch_stores=1)
    if tlb:
        costs.update(p.costs(hit_read="hit_read", hit_write="hit_write",
                             hit_head="hit_head", report="report",
                             interrupt="interrupt", fault="fault",
                             evict="unpin"),
                     source=SOURCE_TLB, busy_wait=1)
    return costs


def connectib(inputs):
    """The card's part of a page fault (NPF, Figure 3)."""
    return inputs.connectib.costs(report="trigger", resume="restart")


def card_timing(name):
    """The card's part of a profile, as its property timing= takes it."""
    makers = {"pca200": lambda inputs: pca200(inputs, tlb=True),
              "dc21140": fast_ethernet, "connectib": connectib}
    if name not in makers:
        raise PaperError(f"no timing {name}; there are {', '.join(makers)}")
    costs = makers[name](Inputs())
    return ":".join(f"{cost}={costs[cost]}" for cost in CARD_COSTS
                    if costs.get(cost))


SOURCE_PINNED, SOURCE_TLB = 1, 2


def fast_ethernet(inputs):
    """Costs of the DC21140."""
    p = inputs.dc21140
    # The look-alike of the trap and its steps is the card's fetch.
    return {**p.costs(fetch="send_steps", wire_byte="line",
                      frame_header="frame_header", frame_least="frame_least",
                      frame_extra="frame_extra", frame_gap="frame_gap",
                      delay="path",
                      place_byte="copy"),
            "arrive": max(0, p.cost("receive_40") - 40 * p.cost("copy") // 1000),
            "source": SOURCE_PINNED}
