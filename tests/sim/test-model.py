#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulation of Figure 3 against a TLB that was written from its description
alone: direct-mapped sets, and behind them a FIFO of victims.

golden.tsv was written by the simulation itself.  Here a model of forty lines
takes the references of each program and must come to the same counts; it must agree
with the card's own TLB on references by chance, one by one; and where the numbers
of misses can be told without any TLB they must be those.

usage: test-model.py SIMULATION REPLAY GOLDEN UTLB    (UNETMM_SEED: of all random choices)
"""
import collections
import operator
import os
import random
import subprocess
import sys

SIMULATION, REPLAY, GOLDEN, UTLB = sys.argv[1:]
SEED = int(os.environ.get("UNETMM_SEED", "1"), 0)
VICTIMS = 16
# A space moves its pages by an odd number of sets (the specification has it).
SPREAD = 0x9e3779b1


class Tlb:
    """A reference answers S (set), V (victims) or M (missed, then entered)."""

    def __init__(self, sets, victims):
        self._sets = sets
        self._most = victims
        self._in_set = {}
        self._victims = collections.OrderedDict()
        # A page brought by a miss is not moved before the next miss.
        self._last = None

    def _displace(self, where):
        """The page of a set goes to the victims, and the oldest of them away."""
        page = self._in_set.pop(where, None)
        if page is None:
            return
        self._victims[page] = True
        while len(self._victims) > self._most:
            self._victims.popitem(last=False)

    def refer(self, space, number):
        """One reference."""
        page = space, number
        where = (number + space * SPREAD) % self._sets
        if self._in_set.get(where) == page:
            return "S"
        if page in self._victims:
            if self._in_set.get(where) != self._last:
                del self._victims[page]
                self._displace(where)
                self._in_set[where] = page
            return "V"
        self._displace(where)
        self._in_set[where] = self._last = page
        return "M"


# ---- The card's TLB ---------------------------------------------------------------


def replayed(sets, victims, references):
    """The results of the card's own TLB."""
    text = "".join(f"{space} {page}\n" for space, page in references)
    done = subprocess.run([REPLAY, "-", str(sets), "1", str(victims), "add", "fifo", "answers"],
                          input=text, stdout=subprocess.PIPE, text=True, check=True)
    answers = done.stdout.strip()
    assert len(answers) == len(references), (len(answers), len(references))
    return answers


def by_chance(chance, many):
    """References with something of programs: some near, some again."""
    pages, found = chance.choice((20, 60, 400)), []
    spaces, at = chance.randrange(1, 5), 0
    for _ in range(many):
        kind = chance.randrange(4)
        if kind == 0 and found:
            found.append(found[-chance.randrange(1, min(20, len(found)) + 1)])
            continue
        at = chance.randrange(pages) if kind == 1 else (at + 1) % pages
        found.append((chance.randrange(1, spaces + 1), 0x8048 + at))
    return found


def chance_agrees_one_by_one():
    chance = random.Random(SEED)
    seen = collections.Counter()
    for number in range(60):
        sets, victims = 1 << chance.randrange(8), chance.randrange(18)
        references = by_chance(chance, 2000)
        model = Tlb(sets, victims)
        ours = "".join(model.refer(*reference) for reference in references)
        theirs = replayed(sets, victims, references)
        seen.update(ours)
        at = next((i for i, pair in enumerate(zip(ours, theirs))
                   if pair[0] != pair[1]), None)
        assert at is None, (f"round {number}, {sets} sets, {victims} victims: "
                            f"reference {at}, {references[at]}, is "
                            f"{theirs[at]}, not {ours[at]}")
    assert min(seen[word] for word in "SVM") > 5000, seen


# ---- Checks without a model
# --------------------------------------------------------


def loops_are_as_computed():
    """Again and again over n pages in a row: with n up to the sets only the first
    round misses; with more, a set has two pages: they take turns, and all that is
    found is among the victims, if these have room for the half that is out."""
    sets, rounds = 64, 5
    for pages in (1, 63, 64, 65, 72, 80, 81, 100, 128):
        answers = replayed(sets, VICTIMS,
                           [(1, page) for page in range(pages)] * rounds)
        misses = collections.Counter(answers)["M"]
        out = 2 * max(0, pages - sets)      # pages that share their set
        # Between two visits of one, each other one of `out` comes by once.
        wanted = pages if out // 2 <= VICTIMS else \
            pages + (rounds - 1) * out
        assert misses == wanted, (pages, misses, wanted)


def without_victims_rivals_always_miss():
    """Two pages of one set in turn; with one victim they find each other."""
    references = [(1, 5), (1, 5 + 64)] * 50
    assert replayed(64, 0, references) == "M" * 100
    assert replayed(64, 1, references).count("M") == 2


def counts_of_a_trace_are_the_models():
    """By ways, index and replacement; the counts and the refusals of lines."""
    chance = random.Random(SEED)
    references = [(chance.randrange(4), chance.randrange(96)) for _ in range(4000)]
    text = "# a comment\n\n" + "".join(f"{space} {page:#x}\n" for space, page in references)
    first = len(set(references))
    for ways in (1, 2, 8, 64):
        for index in ("add", "xor"):
            for replace in ("fifo", "lru", "random"):
                done = subprocess.run([REPLAY, "-", "64", str(ways), "0", index, replace],
                                      input=text, stdout=subprocess.PIPE, text=True, check=True)
                found = [int(word) for word in done.stdout.split()]
                cache = Cache(64, ways, index, replace)
                missed = sum(not cache.refer(*reference) for reference in references)
                assert found[:2] == [len(references), first] and found[3] == 0, found
                assert missed == first + found[2] or replace == "random" and ways > 1, \
                    (ways, index, replace, found, missed)
    for line in ("1", "1 2 3", "x 1", "-1 2", "65536 1", f"1 {1 << 48}", "1 2" + " " * 200):
        done = subprocess.run([REPLAY, "-", "64", "1", "0", "add", "lru"], text=True, check=False,
                              input=f"1 2\n{line}\n", capture_output=True)
        assert done.returncode == 2 and "error: -:2: " in done.stderr, (line, done)


# ---- The programs of the figure ------------------------------------------------------


def golden_rows():
    """[{column: value}] of golden.tsv."""
    with open(GOLDEN, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file
                 if not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def counts(references, sets):
    """The columns of a row, from the references of one program."""
    tlbs, found = {}, collections.Counter()
    known = set()
    for computer, space, page, way in references:
        way += "x"
        tlb = tlbs.setdefault(computer, Tlb(sets, VICTIMS))
        found[way] += 1
        answer = tlb.refer(space, page)
        if answer == "V":
            found["victim_hits"] += 1
        elif answer == "M":
            new = (computer, space, page) not in known
            found[f"{way}_{'compulsory' if new else 'other'}"] += 1
            known.add((computer, space, page))
    return found


def references_of(program):
    """[(computer, space, page, way)]"""
    done = subprocess.run([SIMULATION, "--references", "--program", program],
                          stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(w[0], int(w[1]), int(w[2]), w[3]) for w in lines
            if len(w) == 4 and w[3] in "tr"]


def golden_counts_are_the_models():
    rows = golden_rows()
    programs = list(dict.fromkeys(row["program"] for row in rows))
    assert len(programs) >= 6 and len(rows) == 2 * len(programs), rows
    for program in programs:
        references = references_of(program)
        for row in (row for row in rows if row["program"] == program):
            found = counts(references, int(row["entries"]))
            for column in ("tx", "rx", "tx_compulsory", "rx_compulsory",
                           "tx_other", "rx_other", "victim_hits"):
                assert found[column] == int(row[column]), \
                    (program, row["entries"], column, found[column],
                     row[column])


class Cache:
    """Sets of so many ways, the least recently used page replaced, or the first that came."""

    def __init__(self, entries, ways, index="add", replace="lru"):
        self._sets = collections.defaultdict(collections.OrderedDict)
        self._number = entries // ways
        self._ways = ways
        self._mix = {"add": operator.add, "xor": operator.xor}[index]
        self._stays = replace == "fifo"

    def refer(self, space, page):
        """False: missed, then entered."""
        pages = self._sets[self._mix(page, space * SPREAD) % self._number]
        found = (space, page) in pages
        if not (found and self._stays):
            pages.pop((space, page), None)
            pages[space, page] = True
        if len(pages) > self._ways:
            pages.popitem(last=False)
        return found


def utlb_misses_are_the_models():
    """Without prefetching the library's misses are those of LRU sets; by interrupt
    they are the same, each with a page pinned, and a pinned page that is not in the
    cache was unpinned."""
    with open(UTLB, encoding="utf-8") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    rows = [row for row in rows if row["policy"] == "interrupt" or
            (row["fetch"] == "1" and int(row["quota"]) > 1000)]
    assert {row["ways"] for row in rows} == {"1", "2", "4", "8"}, rows
    for program in dict.fromkeys(row["program"] for row in rows):
        references = references_of(program)
        for row in (row for row in rows if row["program"] == program):
            caches = {}
            entries, ways = int(row["entries"]), int(row["ways"])
            missed = sum(not caches.setdefault(
                computer, Cache(entries, ways)).refer(space, page)
                for computer, space, page, _ in references)
            assert missed == int(row["misses"]), (program, row, missed)
            if row["policy"] == "interrupt":
                assert missed == int(row["pins"]), row
                assert int(row["unpins"]) >= missed - entries * len(caches)


TESTS = [chance_agrees_one_by_one, loops_are_as_computed,
         without_victims_rivals_always_miss, counts_of_a_trace_are_the_models, golden_counts_are_the_models,
         utlb_misses_are_the_models]

FAILED = 0
print(f"1..{len(TESTS)}\n# repeat: UNETMM_SEED={SEED} {' '.join(sys.argv)}")
for count, test in enumerate(TESTS, 1):
    try:
        test()
        print(f"ok {count} - {test.__name__}", flush=True)
    except (AssertionError, subprocess.SubprocessError) as error:
        FAILED += 1
        print(f"not ok {count} - {test.__name__}")
        print(f"# {error}".replace("\n", "\n# "), flush=True)
sys.exit(FAILED > 0)
