# SPDX-License-Identifier: GPL-2.0-or-later
"""Which run of tests/paper makes which point of the papers' figures, and the points.

tests/paper has the program that runs two cards on one heap of events, the
papers' values (expected.json), the published costs of their hardware
(profiles/*.toml), and the reasons of differences (explained.toml).  A point's class
is one of

  calibration      an input, or the point that an input was fitted to
  composition      a sum of inputs: shows that the card takes just these steps
  held-out         neither; its error counts
  not-predictable  the costs that it depends on are not published
"""

import json
import os
import subprocess
import tomllib

from unetmm_tools import REPO
from unetmm_tools.guest.profiles import PAPER, PaperError, fast_ethernet, pca200

GOLDEN = os.path.join(REPO, "tests", "sim", "golden.tsv")

CLASSES = ("calibration", "composition", "held-out", "not-predictable")


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
        """Adds a run to the next batch; returns a function for the run's results."""
        key = self._key(experiment, costs)
        if key not in self.known:
            self.wanted[key] = (experiment, costs)
        return lambda name: self.known[key][name]

    def run(self):
        """Runs the batch."""
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


def log2_of(x):
    """2^-12: 12."""
    return -int(x.split("^")[1])


def gbps(get):
    """The rate of a run, from its results bits and time."""
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
    """The servers that the memory allows: all of a server's memory, or the part in use."""
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
    """NPF, Figure 3: faults of a message of this length."""
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


def fe_round(program, inputs, x):
    """There and back."""
    get = program.want("pingpong", {**fast_ethernet(inputs), "bytes": int(x),
                                    "rounds": 4})
    return lambda: get("round") / 1e6


def fe_slope(program, inputs, _x):
    """The time of 100 bytes more, there and back."""
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
