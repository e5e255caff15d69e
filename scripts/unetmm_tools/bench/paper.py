# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' figures in virtual time: scripts/bench --paper.

tests/paper has the program that runs two cards on one heap of events, the
papers' values (expected.json), the published costs of their hardware
(profiles/*.toml), and the reasons of differences (explained.toml).  This module
maps each point to the run that computes it.  A point's class is one of

  calibration      an input, or the point that an input was fitted to
  composition      a sum of inputs: shows that the card takes just these steps
  held-out         neither; its error counts
  not-predictable  the costs that it depends on are not published
"""

import argparse
import ast
import json
import operator
import os
import subprocess
import sys
import tempfile
import tomllib

from unetmm_tools import REPO

PAPER = os.path.join(REPO, "tests", "paper")
GOLDEN = os.path.join(REPO, "tests", "sim", "golden.tsv")
PAGE = os.path.join(REPO, "docs", "paper-figures.rst")
CURVES = os.path.join(PAPER, "points.tsv")
BEGIN, END = ".. made by scripts/bench --paper --update", ".. end of it"

LIMIT = 0.15                    # of a held-out point's error, unexplained
STEP = 0.2                      # of the sensitivities
CLASSES = ("calibration", "composition", "held-out", "not-predictable")

# UNETMM_COSTS of hw/net/unetmm/timing/timing.h
CARD_COSTS = ("fetch", "gather_byte", "place_byte", "packet", "ack", "complete",
              "hit_read", "hit_write", "hit_head", "miss", "entry", "lock",
              "insert", "evict", "report", "resume", "arrive")
PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}


class PaperError(Exception):
    """One sentence for the user."""


# ---- Profiles ---------------------------------------------------------------

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


NEEDS = {"published": "source", "derived": "formula", "fitted": "point",
         "assumed": "source"}


class Profile:
    """A file of costs; values by name, in the unit that the file says."""

    def __init__(self, name, changed=None):
        path = os.path.join(PAPER, "profiles", name + ".toml")
        with open(path, "rb") as file:
            self.entries = tomllib.load(file)
        self.name = name
        self.values = {}
        self.used = set()
        for key, entry in self.entries.items():
            kind = entry.get("class")
            if kind not in NEEDS or NEEDS[kind] not in entry:
                raise PaperError(f"{path}: {key} needs a class and its reason")
            if kind != "derived":
                self.values[key] = float(entry["value"])
            else:
                self.values[key] = formula(
                    ast.parse(entry["formula"], mode="eval"), self.values)
            if changed and key in changed:
                self.values[key] *= changed[key]

    def __getitem__(self, key):
        self.used.add(key)
        return self.values[key]

    def unit(self, key):
        """Of the value."""
        return self.entries[key]["unit"]

    def cost(self, key):
        """As the program takes it: ps, fs a byte, or a number."""
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
    """All profiles; `changed` is {(profile, name): factor}."""

    def __init__(self, changed=None):
        changed = changed or {}
        for name in sorted(os.listdir(os.path.join(PAPER, "profiles"))):
            name = name.removesuffix(".toml")
            setattr(self, name, Profile(name, {
                key: factor for (of, key), factor in changed.items()
                if of == name}))

    def profiles(self):
        """All of them."""
        return list(vars(self).values())

    def used(self):
        """{profile: names} that were asked for since the last call."""
        found = {p.name: p.used for p in self.profiles() if p.used}
        for p in self.profiles():
            p.used = set()
        return found


# ---- The program ------------------------------------------------------------

class Program:
    """Runs experiments, each once; those that are wanted together at once."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        self.wanted = {}

    @staticmethod
    def _key(experiment, costs):
        return (experiment, *sorted(costs.items()))

    def want(self, experiment, costs):
        """To be run with the next batch; returns a function for the result."""
        key = self._key(experiment, costs)
        if key not in self.known:
            self.wanted[key] = (experiment, costs)
        return lambda name: self.known[key][name]

    def run(self):
        """All that is wanted."""
        if not self.wanted:
            return
        text = "".join(f"run {experiment}\n" + "".join(
            f"{name} {value}\n" for name, value in sorted(costs.items()))
            for experiment, costs in self.wanted.values())
        done = subprocess.run([self.path, "--batch"], input=text, text=True,
                              stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise PaperError("unetmm-paper failed")
        results = []
        for line in done.stdout.splitlines():
            name, value = line.split("\t")
            if name == "run":
                results.append({})
            elif name == "trace":
                results[-1][name] = value
            else:
                results[-1][name] = int(value)
        for key, result in zip(self.wanted, results, strict=True):
            self.known[key] = result
        self.wanted = {}


# ---- Figures: which run makes which point -----------------------------------

def log2_of(x):
    """2^-12: 12."""
    return -int(x.split("^")[1])


def gbps(get):
    """Of a run that says bits and time."""
    return get("bits") / get("time") * 1000


def rnr(program, inputs, x):
    """NPF, Figure 10: InfiniBand."""
    p = inputs.connectib
    log2 = log2_of(x)
    faults = 8 if log2 <= 14 else 2
    per_message = p.cost("bytes") // p.cost("mtu")
    get = program.want("rnr", {
        **p.costs(wire_byte="line", bytes="bytes", mtu="mtu", delay="delay",
                  report="trigger", fault="driver", reply="update",
                  resume="restart", not_ready="not_ready", timeout="timeout"),
        "log2": log2, "rounds": (faults << log2) // per_message})
    return lambda: gbps(get)


def backup_costs(inputs, which, log2):
    """One fault in 2^log2 packets."""
    p = inputs.ethernet
    return {**p.costs(wire_byte="line", bytes="bytes", ring="ring",
                      fault="fault", service=which),
            "backup_bits": 2 * p.cost("ring"),
            "log2": log2, "rounds": max(2, (1 << 13) >> log2)}


def backup(which):
    """NPF, Figure 10: Ethernet with the backup ring."""
    def make(program, inputs, x):
        get = program.want("backup", backup_costs(inputs, which, log2_of(x)))
        return lambda: gbps(get)
    return make


def drop(which):
    """NPF, Figure 10: Ethernet without it."""
    def make(program, inputs, x):
        p = inputs.ethernet
        get = program.want("drop", {
            **p.costs(wire_byte="line", bytes="bytes", drop_time=which),
            "log2": log2_of(x), "rounds": 4})
        return lambda: gbps(get)
    return make


def store(pinned):
    """NPF, Figure 8a."""
    def make(program, inputs, x):
        p = inputs.storage
        buffer = p["buffer"] if pinned else p["buffer_npf"]
        # Figure 8b's buffer takes the same memory for its own purpose.
        cached = max(float(x) - p["system"] - buffer, 0.01)
        blocks = round(p["lun"] * 1e9) // p.cost("bytes")
        get = program.want("store", {
            **p.costs(bytes="bytes", disk_byte="disk", memory_byte="memory"),
            "blocks": blocks, "accesses": 100000,
            "cached": max(1, min(round(cached * 1e9) // p.cost("bytes"),
                                 blocks))})
        return lambda: get("bits") / 8 / get("time") * 1000
    return make


def store_ratio(program, inputs, x):
    """Page faults over pinned."""
    npf = store(False)(program, inputs, x)
    pinned = store(True)(program, inputs, x)
    return lambda: npf() / pinned()


def store_memory(program, inputs, x):
    """NPF, Figure 8b: memory of the first session and of each further one."""
    p = inputs.storage
    kind, sessions = x.split(", ")
    more = (int(sessions) - 1) * p["session"]
    if kind == "pinned":
        buffer = p["buffer"]
        return lambda: buffer + more
    small = kind == "64 KB"
    costs = {"blocks": p.cost("chunks"), "depth": p.cost("depth"),
             "bytes": 65536 if small else p.cost("chunk")}
    one = program.want("touch", {**costs, "sessions": 1})
    get = program.want("touch", {**costs, "sessions": int(sessions)})
    base = p["buffer_small"] if small else p["buffer_npf"]
    return lambda: base + more + (get("touched") - one("touched")) / 1e9


def servers_alone(_program, inputs, x):
    """NPF, Table 5: the inputs; pinned servers are as fast, once all is in."""
    value = inputs.servers[f"rate_{x}"]
    return lambda: value


def servers_started(_program, inputs, x):
    """As many as their memory allows: all of it, or the part in use."""
    p = inputs.servers
    number_of = p["memory"] // p["vm" if x == "pinned" else "used"]
    return lambda: number_of


def servers_moved(program, inputs, x):
    """NPF, Figure 7: hits of a least recently used cache; a miss takes as long.

    The first server's set is the large one by then.  Pinned, each has half of
    the memory; with page faults, all that the other one does not use.
    """
    p = inputs.servers
    kind, server = x.split(", ")
    mine, other = ("large", "small") if server == "1" else ("small", "large")
    room = p["group"] / 2 if kind == "pinned" else p["group"] - p[other]
    items = round(p[mine] * 1e9) // p.cost("item")
    accesses = 500000
    get = program.want("store", {
        "bytes": p.cost("item"), "blocks": items, "accesses": accesses,
        "cached": min(round(room * 1e9) // p.cost("item"), items)})
    rate = p["hits"]
    return lambda: rate * get("hits") / accesses


def npf_fault(pages, single=False):
    """NPF, Figure 3: a fault of so many pages."""
    def make(program, inputs, _x):
        p = inputs.connectib
        get = program.want("fault", {
            **p.costs(report="trigger", fault="driver",
                      fault_page="driver_page", reply="update",
                      page_update="update_page", resume="restart"),
            "pages": pages, "single": int(single)})
        return lambda: get("fault") / (1e9 if single else 1e6)
    return make


def npf_faults(program, inputs, x):
    """By the message's length."""
    return npf_fault(1 if x == "4 KB" else 1024)(program, inputs, x)


def npf_part(_program, inputs, x):
    """The inputs themselves."""
    size, part = x.split(", ")
    key = {"trigger interrupt": "trigger", "driver": "driver",
           "update hw PT": "update", "resume": "restart"}[part]
    if size == "4 MB":
        key = "restart" if key == "restart" else key + "_1024"
    value = inputs.connectib[key]
    return lambda: value


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
STRIDE = 16                     # of message.c


def atm_round(program, inputs, x):
    """There and back."""
    get = program.want("pingpong", {
        **pca200(inputs), **inputs.pca200.costs(multi_cell="multi_cell"),
        "bytes": int(x), "rounds": 4})
    return lambda: get("round") / 1e6


def translations(program, inputs, x):
    """Time that Table 1's translations add to one way of a page's message."""
    about = {"bytes": 1024, "rounds": 4}
    all_hit = {**pca200(inputs, tlb=True), **about, "hit_head": 0}
    if x.endswith(" hit"):
        base = {**pca200(inputs), **about}
        only = {**all_hit, "hit_write" if x == "send hit" else "hit_read": 0}
    else:
        base = all_hit
        only = {**all_hit, "pages": 64, "rounds": 16}
        if x != "send miss":
            only.update(tlb_sets=STRIDE, warm=24)
    before = program.want("pingpong", base)
    after = program.want("pingpong", only)
    return lambda: (after("round") - before("round")) / 2e6


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


def fe_round(program, inputs, x):
    """There and back."""
    get = program.want("pingpong", {**fast_ethernet(inputs), "bytes": int(x),
                                    "rounds": 4})
    return lambda: get("round") / 1e6


def fe_slope(program, inputs, _x):
    """Of 100 bytes more, there and back."""
    small, large = (fe_round(program, inputs, n) for n in (100, 1400))
    return lambda: (large() - small()) / 13


def stream(costs):
    """A bandwidth, Mb/s."""
    def make(program, inputs, x):
        get = program.want("stream", {**costs(inputs), "bytes": int(x),
                                      "rounds": 64})
        return lambda: int(x) * 8e6 / get("message")
    return make


def send_work(_program, inputs, x):
    """The processors' part."""
    if x == "ATM":
        work = inputs.pca200["post"] + inputs.pca200["fetch"]
    else:
        work = inputs.dc21140["send_steps"]
    return lambda: work


def tlb_counts():
    """{(program, kind): % of references} with 256 entries, of tests/sim."""
    with open(GOLDEN, encoding="utf-8") as file:
        lines = file.read().splitlines()[1:]
    names = lines[0].split("\t")
    found = {}
    for line in lines[1:]:
        row = dict(zip(names, line.split("\t")))
        if row["entries"] == "256":
            refs = int(row["tx"]) + int(row["rx"])
            for way in ("tx", "rx"):
                for kind in ("compulsory", "other"):
                    found[f"{row['program']}, {way} {kind}"] = (
                        100 * int(row[f"{way}_{kind}"]) / refs)
    return found


def tlb_misses(_program, _inputs, x):
    """U-Net/MM, Figure 3: counted by scripts/tlb-sim, pinned by its test."""
    return lambda: tlb_counts()[x]


def everywhere(kind):
    """All points are of this class."""
    return lambda x: kind


def but(*fitted, rest="held-out"):
    """Held out, but for those that an input is, or was fitted to."""
    return lambda x: "calibration" if x in fitted else rest


# id: (which class, how it is made, from where); none: explained.toml says why
FIGURES = {
    "N10i": (but("2^-12"), rnr, "connectib"),
    "N10m": (but("2^-12"), backup("minor_thread"), "ethernet"),
    "N10M": (but("2^-12"), backup("major_thread"), "ethernet"),
    "N10d": (but("2^-18"), drop("minor_drop"), "ethernet"),
    "N10D": (but("2^-18"), drop("major_drop"), "ethernet"),
    "N8p": (but("5", "6"), store(True), "storage"),
    "N8n": (everywhere("held-out"), store(False), "storage"),
    "N8r": (everywhere("held-out"), store_ratio, "storage"),
    "N8b": (but("pinned, 1", "pinned, 64", "64 KB, 1", "512 KB, 1",
                "512 KB, 64"), store_memory, "storage"),
    "N3p": (everywhere("calibration"), npf_part, "connectib"),
    "N3": (everywhere("composition"), npf_faults, "connectib"),
    "N3a": (everywhere("held-out"), npf_faults, "connectib"),
    "N3c": (everywhere("held-out"), npf_fault(1024, True), "connectib"),
    "N5": (but("1", "2", rest="not-predictable"), servers_alone, "servers"),
    "N5p": (everywhere("composition"), servers_alone, "servers"),
    "N5s": (everywhere("composition"), servers_started, "servers"),
    "N7": (but("pinned, 2"), servers_moved, "servers"),
    "T1a": (everywhere("composition"), translations, "pca200"),
    "R8": (everywhere("composition"), send_work, "pca200, dc21140"),
    "R1": (everywhere("held-out"), fe_round, "dc21140"),
    "R2": (everywhere("held-out"), fe_slope, "dc21140"),
    "R4": (everywhere("held-out"), atm_round, "pca200"),
    "R5": (but("44"), atm_round, "pca200"),
    "R6": (everywhere("held-out"), stream(fast_ethernet), "dc21140"),
    "R7": (everywhere("held-out"), stream(lambda i: pca200(i, "taxi")),
           "pca200"),
    "F3m": (everywhere("held-out"), tlb_misses, "tests/sim"),
}
NOT_MADE = (everywhere("not-predictable"), None, "")


def expected():
    """The values that the papers print."""
    with open(os.path.join(PAPER, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


def explained():
    """{(id, x): why}, and {id: why it cannot be predicted}."""
    with open(os.path.join(PAPER, "explained.toml"), "rb") as file:
        data = tomllib.load(file)
    points = {}
    for entry in data["explained"]:
        if len(entry["cost"]) < 20:
            raise PaperError("explained.toml: an entry names no cost")
        for x in entry["x"]:
            points[entry["id"], x] = entry["cost"]
    return points, data["not-predictable"]


def inputs_text(inputs, used):
    """The names of inputs, each with the first letter of its class."""
    return "; ".join(profile + ": " + " ".join(
        f"{key}({getattr(inputs, profile).entries[key]['class'][0].upper()})"
        for key in sorted(names)) for profile, names in used.items())


def borrowed(inputs, used, row):
    """Fitted inputs whose point is not of this paper's page."""
    all_rows = expected()
    found = []
    for profile, names in used.items():
        for key in sorted(names):
            entry = getattr(inputs, profile).entries[key]
            if entry["class"] != "fitted":
                continue
            other = all_rows[entry["point"].split(" ")[0]]
            if (other["paper"], other["page"].split(",")[0]) != (
                    row["paper"], row["page"].split(",")[0]):
                found.append(f"{profile}/{key}")
    return found


def measure(program, inputs, figures=None):
    """All points: one dictionary each."""
    points, makers = [], []
    why, reasons = explained()
    for name, row in expected().items():
        if figures is not None and name not in figures:
            continue
        for x, value in row["points"].items():
            point = {"id": name, "paper": row["paper"], "page": row["page"],
                     "title": row["title"], "unit": row["unit"],
                     "x": x, "expected": value, "got": None, "error": None,
                     "class": "not-predictable", "inputs": "",
                     "explained": reasons.get(name)}
            make = None
            if name not in FIGURES and name not in reasons:
                raise PaperError(f"{name}: neither a figure nor explained")
            kind, maker, source = FIGURES.get(name, NOT_MADE)
            if kind(x) != "not-predictable":
                point["class"] = kind(x)
                point["inputs"] = source
                point["explained"] = why.get((name, x))
                inputs.used()
                make = maker(program, inputs, x)
                used = inputs.used()
                point["inputs"] = inputs_text(inputs, used) or source
                point["borrowed"] = borrowed(inputs, used, row)
            points.append(point)
            makers.append(make)
    program.run()
    for point, make in zip(points, makers):
        if make:
            point["got"] = make()
            point["error"] = point["got"] / point["expected"] - 1
    return points


# ---- Errors and reasons ----------------------------------------------------

def held_out(points):
    """Those whose errors count."""
    return [p for p in points if p["class"] == "held-out"]


def unexplained(points):
    """Held out, too far off, and no word about it."""
    return [p for p in held_out(points)
            if abs(p["error"]) > LIMIT and not p["explained"]]


def needless(points):
    """Explained, though there is nothing to be explained."""
    return [p for p in held_out(points)
            if abs(p["error"]) <= LIMIT and p["explained"]]


def number(value):
    """Four digits that count."""
    if value is None:
        return "–"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def percent(error):
    """With its sign."""
    return "–" if error is None else f"{100 * error:+.1f} %"


def summary(points):
    """Three sentences."""
    held = held_out(points)
    errors = [abs(p["error"]) for p in held]
    within = sum(e <= LIMIT for e in errors)
    far = len(by_cost(points))
    return (f"{len(held)} held-out points: mean error "
            f"{100 * sum(errors) / len(errors):.1f} %, largest "
            f"{100 * max(errors):.1f} %; {within} within "
            f"{100 * LIMIT:.0f} %, {len(held) - within} further off, by {far} "
            "missing costs.")


def table(points):
    """As text."""
    rows = [("id", "x", "expected", "got", "unit", "error", "class",
             "inputs")]
    rows += [(p["id"], p["x"], number(p["expected"]), number(p["got"]),
              p["unit"], percent(p["error"]), p["class"], p["inputs"])
             for p in points]
    return columns(rows)


def columns(rows):
    """Lines of text, from rows of cells."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths))
            .rstrip() for row in rows]


def rst_table(points, program):
    """As the documentation has it."""
    out = [summary(points), "", ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows([("Figure", "x", "Paper", "Here", "Error", "Class")] + [
        (f"{p['title']} ({p['id']}: {p['paper']}, {p['page']})"
         if p is first else "", p["x"] or "–",
         f"{number(p['expected'])} {p['unit']}".strip(), number(p["got"]),
         percent(p["error"]), p["class"])
        for p, first in zip(points, firsts(points))])
    out += ["", "Held-out points that are more than 15 % off, and the cost "
            "that is missing:", ""]
    for cost, of in by_cost(points).items():
        out += [f"* {of}: {cost}"]
    out += ["", "Not predictable, and why:", ""]
    seen = set()
    for p in points:
        if p["class"] == "not-predictable" and p["id"] not in seen:
            seen.add(p["id"])
            out += [f"* {p['title']} ({p['id']}): {p['explained']}"]
    out += ["", "Which of U-Net/MM's ports is cheaper, by the costs of their "
            "Table 1: translation for one way of a message, and the DC21140's "
            "copy by the receiver's kernel:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows(ports_table())
    out += ["", "The cold ring of NPF's Figure 4b, dropping: seconds until "
            "10 000 operations are done, by the client's connections:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows(cold_table(program))
    out += ["", "Mechanisms of the papers that the card's interface does not "
            "have, in the model: without and with each:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    return out + rst_rows(switches_table(program))


def rst_rows(rows):
    """Of a list-table."""
    return [(("   * -" if i == 0 else "     -") + " " + cell).rstrip()
            for row in rows for i, cell in enumerate(row)]


def firsts(points):
    """For each point the first one of its figure."""
    first = {}
    return [first.setdefault(p["id"], p) for p in points]


def by_cost(points):
    """{cost: "R1 40, N10M 2^-9 2^-10"}"""
    costs = {}
    for p in held_out(points):
        if p["explained"]:
            costs.setdefault(p["explained"], []).append(
                f"{p['id']} {p['x']}")
    return {cost: ", ".join(of) for cost, of in costs.items()}


# ---- Conclusions, and their sensitivities -----------------------------------

def point_of(name, x):
    """A function that makes one point's value."""
    return lambda program, inputs: FIGURES[name][1](program, inputs, x)


def part_of_line(program, inputs):
    """InfiniBand's rate at one fault in 2^15 packets, over the line rate."""
    get = point_of("N10i", "2^-15")(program, inputs)
    return lambda: get() / inputs.connectib["line"]


PAGE_BYTES = 4096
PORT_MISSES = (0, 0.01, 0.1, 0.5, 1)
PORT_SIZES = (40, 1024, 4096, 16384)


def port_times(inputs, misses, size=1024):
    """One way of a message, us: (interface, kernel, kernel that copies).

    All ports have Table 1's costs, for each page of the message.  The interface
    looks the page up to send and to receive; a miss is a handshake, an interrupt,
    a page that is pinned and one that is unpinned.  The kernel looks up twice,
    too; a miss is a page that is pinned and one that is unpinned.  The DC21140's
    port also copies each received message, since its interface does not know the
    endpoint.
    """
    p, k = inputs.pca200, inputs.dc21140
    pages = -(-size // PAGE_BYTES)
    interface = pages * (p["hit_read"] + p["hit_write"] + misses * (
        p["report"] + p["interrupt"] + p["fault"] + p["unpin"]))
    kernel = pages * (2 * k["ktlb_hit"] +
                      misses * (k["ktlb_pin"] + k["ktlb_unpin"]))
    return interface, kernel, kernel + size * k["copy"]


def kernel_saves(_program, inputs):
    """At a miss rate of 1 %, us of one way."""
    interface, kernel, _ = port_times(inputs, 0.01)
    return lambda: interface - kernel


def copy_costs(_program, inputs):
    """A page whose send misses, us: the port that copies, less the interface."""
    interface, _, copied = port_times(inputs, 1, PAGE_BYTES)
    return lambda: copied - interface


def ports_table():
    """Rows: size and miss rate, the three ports, and the cheapest with a copy."""
    rows = [("Bytes", "Sends that miss", "In the interface, us",
             "In the kernel, us", "In the kernel, which copies, us",
             "Cheaper of interface and copying kernel")]
    for size in PORT_SIZES:
        for misses in PORT_MISSES:
            times = port_times(Inputs(), misses, size)
            rows.append((str(size), f"{100 * misses:.0f} %",
                         *(f"{time:.2f}" for time in times),
                         "interface" if times[0] < times[2] else "kernel"))
    return rows


# ---- Mechanisms that the card's interface does not have ---------------------

MISSES = {"bytes": 40, "rounds": 2048, "warm": 64, "pages": 64,
          "tlb_sets": STRIDE}
DESCRIPTORS = 256               # of 16 bytes in a page
KTLB = {"processes": 8, "pages": 256, "accesses": 100000}


def switched(program, experiment, base, off, on):
    """The results without and with a mechanism: a function of their name."""
    runs = [program.want(experiment, {**base, **costs}) for costs in (off, on)]
    return lambda name: tuple(get(name) for get in runs)


def switches(program, inputs):
    """Rows: mechanism, measured value and its unit, without it, with it."""
    hca, atm = inputs.connectib, inputs.pca200
    miss = pca200(inputs, tlb=True)
    resumed = switched(program, "resume", {
        **hca.costs(report="trigger", fault="driver", reply="update",
                    resume="restart", clear="clear")},
        {"clear_first": 1}, {})
    evicted = switched(program, "pingpong", {
        **miss, **MISSES, "rounds": 16}, {"evict_report": miss["report"]}, {})
    waited = switched(program, "wait", {
        **miss, **MISSES, "interval": 331 * PS["us"]},
        {"busy_wait": 0}, {"busy_wait": 1})
    paged = switched(program, "pingpong", {
        **miss, **MISSES, "rounds": 16, "page_in": atm.cost("page_in")},
        {"others": atm.cost("slice")}, {})
    limited = program.want("limit", {
        **miss, "bytes": 1024, "rounds": 192, "warm": 80, "pages": 64,
        "tlb_limit": atm.cost("entries")})
    shared = switched(program, "ktlb", KTLB, {}, {"shared": 1})
    absent = switched(program, "backup", backup_costs(
        inputs, "minor_thread", 12), {}, {"descriptors": DESCRIPTORS})
    program.run()
    rows = [
        ("NPF: resume the hardware, then clear the bit",
         "a page fault, us", resumed("fault"), PS["us"]),
        ("", "a second one that follows at once, us", resumed("second"),
         PS["us"]),
        ("NPF: a page with 256 of the ring's descriptors is absent, instead "
         "of a buffer", "one fault in 2^12 packets, Gb/s",
         tuple(map(operator.truediv, absent("bits"), absent("time"))), 0.001),
        ("", "packets in the backup ring, each fault",
         tuple(map(operator.truediv, absent("backed"), absent("faults"))), 1),
        ("U-Net/MM: one record for a miss and the page to unpin",
         "there and back, each send misses, us", evicted("round"), PS["us"]),
        ("U-Net/MM: the card waits busily for a miss",
         "a message that arrives meanwhile, us", waited("message"), PS["us"]),
        ("U-Net/MM: page-in at the head of the run queue",
         "there and back, each send's page is on disk, ms", paged("round"),
         PS["ms"]),
        ("U-Net/MM: the kernel limits valid entries, at run time",
         "pages pinned", (limited("entries"), limited("entries, limited")), 1),
        ("", "there and back, us",
         (limited("round"), limited("round, limited")), PS["us"]),
        ("U-Net/MM: one TLB of the kernel for the card, not one a process",
         "pages pinned", shared("pinned"), 1),
        ("", "misses", shared("misses"), 1)]
    return [(text, what, *(value / unit for value in values))
            for text, what, values, unit in rows]


def switches_table(program):
    """The same as text."""
    return [("Mechanism", "Measured", "Without", "With")] + [
        (text, what, *(f"{value:.2f}" if value % 1 else f"{value:.0f}"
                       for value in values))
        for text, what, *values in switches(program, Inputs())]


# ---- The cold ring, by TCP's timers -----------------------------------------

COLD_RINGS = (16, 32, 64, 128)
COLD_CLIENTS = (1, 4, 16, 64)
COLD_WAYS = (("one after another", 1), ("all at once", 0))
COLD_PAPER = ("10.9", "11.8", "61.9", "no end")


def cold(program, ring, connections, sequential=1, stamps=1, **more):
    """NPF, Figure 4: the results of one client and one ring."""
    p = Inputs().coldring
    costs = {"fault": p.cost("fault"), **more}
    return program.want("cold", {
        **p.costs(service="service", accesses="operations", delay="delay",
                  rto_first="rto_first", rto_again="rto_again",
                  rto_least="rto_least", rto_server="rto_server",
                  syn_wait="syn_wait"),
        **costs, "ring": ring, "connections": connections,
        "sequential": sequential, "stamps": stamps})


def cold_table(program):
    """Rows: the paper's, and each client's seconds until it is done."""
    runs = [((str(clients), text, "yes" if stamps else "no"),
             [cold(program, ring, clients, way, stamps)
              for ring in COLD_RINGS])
            for stamps in (0, 1) for text, way in COLD_WAYS
            for clients in COLD_CLIENTS]
    program.run()
    return [("Connections", "Made", "Time stamps",
             *(f"Ring of {ring}, s" for ring in COLD_RINGS)),
            ("the paper's", "–", "–", *COLD_PAPER)] + [
        (*names, *(f"{get('time') / PS['s']:.1f}" if get("time") else "no end"
                   for get in results)) for names, results in runs]


# text, how its value is made, when it holds
CONCLUSIONS = (
    ("at one fault in 2^15 packets InfiniBand keeps 80 % of its rate",
     part_of_line, lambda v: v > 0.8),
    ("at one fault in 2^12 packets the backup ring gives over 5 Gb/s",
     point_of("N10m", "2^-12"), lambda v: v > 5),
    ("at one fault in 2^12 packets dropping gives under 0.5 Gb/s",
     point_of("N10d", "2^-12"), lambda v: v < 0.5),
    ("with 5 GB page faults give 1.2 times pinning's rate",
     point_of("N8r", "5"), lambda v: v > 1.2),
    ("with 6 GB page faults give 1.2 times pinning's rate",
     point_of("N8r", "6"), lambda v: v > 1.2),
    ("4 MB page by page take 100 times one batched fault, ms",
     point_of("N3c", "4 MB"), lambda v: v > 36),
    ("a send miss costs 20 times a hit, us",
     point_of("T1a", "send miss"), lambda v: v > 20),
    ("translating in the kernel is cheaper at a miss rate of 1 %, us saved",
     kernel_saves, lambda v: v > 0),
    ("a page of 4 KB is cheaper in the interface than in a kernel that copies, "
     "even if each send misses, us saved", copy_costs, lambda v: v > 0),
)


def sensitivities(program):
    """One line for each conclusion: the inputs that move it most."""
    keys = [(p.name, key) for p in Inputs().profiles() for key, entry
            in p.entries.items() if entry["unit"] not in ("", "B")]
    wanted = []
    for text, make, holds in CONCLUSIONS:
        cases = [((key, factor), make(program, Inputs({key: factor})))
                 for key in keys for factor in (1 - STEP, 1 + STEP)]
        wanted.append((text, make(program, Inputs()), holds, cases))
    program.run()
    out = []
    for text, now, holds, cases in wanted:
        value = now()
        moved = sorted(((abs(get() / value - 1), key, factor, get())
                        for (key, factor), get in cases), reverse=True,
                       key=lambda m: m[0])
        flips = [f"{'/'.join(key)} x {factor:g}"
                 for _, key, factor, got in moved if not holds(got)]
        worst = ", ".join(f"{'/'.join(key)} x {factor:g}: {number(got)}"
                          for move, key, factor, got in moved[:2] if move)
        out.append(f"{text}: {number(value)}"
                   f"{'' if holds(value) else ' (it does not hold)'}; "
                   f"most by {worst or 'none'}; " +
                   ("flips with " + ", ".join(flips) if flips else
                    "no single input flips it"))
    return out


def fit(program):
    """Prints the value with which each fitted point is met."""
    for profile in Inputs().profiles():
        for key, entry in profile.entries.items():
            if entry["class"] != "fitted":
                continue
            name, x = entry["point"].split(" ", 1)
            want = expected()[name]["points"][x]
            low, high = 0.2, 5.0
            rising = None
            for _ in range(40):
                middle = (low + high) / 2
                got = []
                for factor in (low, middle):
                    inputs = Inputs({(profile.name, key): factor})
                    get = FIGURES[name][1](program, inputs, x)
                    program.run()
                    got.append(get())
                if rising is None:
                    rising = got[1] > got[0]
                if (got[1] < want) == rising:
                    low = middle
                else:
                    high = middle
            print(f"{profile.name}/{key}: {profile[key] * low:.6g} "
                  f"{entry['unit']}")


# ---- Plots ------------------------------------------------------------------

def plot(points, directory):
    """One picture for each curve: the paper's points, and ours."""
    os.makedirs(directory, exist_ok=True)
    curves = {}
    for p in points:
        if p["got"] is not None:
            curves.setdefault(p["id"], []).append(p)
    for name, of in curves.items():
        if len(of) < 3:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".dat") as data:
            for i, p in enumerate(of):
                data.write(f'{i} "{p["x"]}" {p["expected"]} {p["got"]}\n')
            data.flush()
            svg = os.path.join(directory, f"{name}.svg")
            commands = f"""
set terminal svg size 720,420 noenhanced background 'white'
set output '{svg}'
set title '{of[0]["title"].replace("'", "")} ({of[0]["page"]})'
set ylabel '{of[0]["unit"]}'
set xtics rotate by -45
set key top left
set yrange [0:*]
plot '{data.name}' using 1:3:xtic(2) with points pt 7 title 'paper', \
 '' using 1:4 with lines title 'here'
"""
            try:
                subprocess.run(["gnuplot", "-"], input=commands, text=True,
                               check=True)
            except (FileNotFoundError,
                    subprocess.CalledProcessError) as error:
                raise PaperError("--plots needs gnuplot: run scripts/setup "
                                 "plots") from error


# ---- The documentation's part -----------------------------------------------

def curves_text(points):
    """points.tsv, from which scripts/figures draws the overlays."""
    return "# made by scripts/bench --paper --update\nid\tx\tpaper\there\n" + (
        "".join(f"{p['id']}\t{p['x']}\t{p['expected']}\t{p['got']:.6g}\n"
                for p in points if p["got"] is not None))


def read_curves():
    """{id: [(x, the paper's value, ours)]} of points.tsv."""
    found = {}
    with open(CURVES, encoding="utf-8") as file:
        for line in file.read().splitlines()[2:]:
            name, x, paper, here = line.split("\t")
            found.setdefault(name, []).append((x, float(paper), float(here)))
    return found


def update_curves(points):
    """Writes points.tsv."""
    with open(CURVES, "w", encoding="utf-8") as file:
        file.write(curves_text(points))


def check_curves(points):
    """Does points.tsv have these values?"""
    with open(CURVES, encoding="utf-8") as file:
        if file.read() != curves_text(points):
            raise PaperError("tests/paper/points.tsv has other values (run "
                             "scripts/bench --paper --update, then "
                             "scripts/figures)")


def update_page(lines):
    """Replaces the text between the two marks."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    if page.count(BEGIN) != 1 or END not in page.split(BEGIN)[1]:
        raise PaperError(f"{PAGE} has no single place for the table")
    head, rest = page.split(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END +
                   rest.split(END, 1)[1])


def check_page(lines):
    """Does the page have this table?"""
    with open(PAGE, encoding="utf-8") as file:
        if "\n".join(lines) not in file.read():
            raise PaperError("docs/paper-figures.rst has another table (run "
                             "scripts/bench --paper --update)")


def report(points, program, options):
    """All that is printed."""
    print("\n".join(table(points)))
    print()
    print("inputs: (P)ublished, (D)erived, (F)itted, (A)ssumed")
    print(summary(points))
    for cost, of in by_cost(points).items():
        print(f"explained: {of}: {cost}")
    print("\ntranslation in U-Net/MM's ports, by Table 1:")
    for row in columns(ports_table()):
        print("  " + row)
    print("\nthe cold ring, dropping (NPF, Figure 4b):")
    for row in columns(cold_table(program)):
        print("  " + row)
    print("\nmechanisms, without and with each:")
    for row in columns(switches_table(program)):
        print("  " + row)
    print()
    if not options.quick:
        print(f"Each input by {100 * STEP:.0f} % up and down:")
        for line in sensitivities(program):
            print("  " + line)


def main():
    """scripts/bench --paper."""
    parser = argparse.ArgumentParser(prog="scripts/bench --paper")
    parser.add_argument("--program", required=True)
    parser.add_argument("--json")
    parser.add_argument("--plots")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    program = Program(options.program)
    if options.fit:
        fit(program)
        return
    points = measure(program, Inputs())
    report(points, program, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            for p in points:
                file.write(json.dumps({key: p[key] for key in (
                    "id", "paper", "page", "x", "expected", "got", "error",
                    "class", "inputs", "explained")}) + "\n")
    if options.plots:
        plot(points, options.plots)
    if options.update:
        update_page(rst_table(points, program))
        update_curves(points)
    if options.check:
        check_page(rst_table(points, program))
        check_curves(points)
    bad = unexplained(points)
    if bad:
        raise PaperError("held out, more than 15 % off, and not explained: " +
                         ", ".join(f"{p['id']} {p['x']}" for p in bad))
    idle = needless(points)
    if idle:
        raise PaperError("explained.toml names points that are within 15 %: " +
                         ", ".join(f"{p['id']} {p['x']}" for p in idle))


if __name__ == "__main__":
    try:
        main()
    except (PaperError, OSError) as error:
        sys.exit(f"error: {error}")
