# SPDX-License-Identifier: GPL-2.0-or-later
"""The stage demo: scripts/demo, and facts that must be true of its reports."""

import json
import os
import tempfile

from unetmm_tools import SCRIPTS
from unetmm_tools.check.runner import FAIL, PASS, Result, one, side_by_side
from unetmm_tools.check.stages import GUEST_SEED


def stage_demo(options):
    """scripts/demo, and checks of its reports.

    Without --long: the first tour, with --virtual as well, and of the others one pair, by
    the seed; the tours mpi and verbs take long.  Virtual time does not depend on the host's load, so
    the virtual tours run beside the others.
    """
    tours = [("vmmc", vmmc_facts), ("npf", npf_facts), ("netvm", netvm_facts),
             ("ethernet", ethernet_facts)]
    real, unreal = [("messages", message_facts)], [("messages", message_facts)]
    if options.long:
        real += [*tours, ("mpi", mpi_facts), ("verbs", verbs_facts)]
        unreal += tours[:3]
    else:
        real += tours[GUEST_SEED % 2::2]
    for results in side_by_side([
            (all_of, real, (), 900), (all_of, unreal, ("--virtual",), None)]):
        yield from results


def all_of(tours, words, limit):
    """The results of some tours, one after another."""
    return [result for tour, facts in tours
            for result in demo_results(tour, facts, words, limit)]


def demo_results(tour, facts, words, limit):
    """One tour, and the facts that must be true of its report.

    In virtual time a tour has limits of virtual time, and the host's is no limit.
    """
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "demo.json")
        command = [os.path.join(SCRIPTS, "demo"), "--tour", tour, *words,
                   "--json", report]
        result = one(f"{' '.join(['scripts/demo --tour', tour, *words])} ends well",
                     command, limit)
        yield result
        if result.outcome != PASS:
            return
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
    for name, good in facts(data):
        yield Result(" ".join(["demo:", name, *words]), PASS if good else FAIL, 0,
                     json.dumps(data, indent=1), result.repeat)


def message_facts(data):
    """Facts of the tour of messages that hold at any speed."""
    return (
        ("every byte was verified", data["exchange"]["verified"] is True),
        ("messages went both ways", all(
            data["exchange"][way]["messages"] > 0 for way in ("to", "from"))),
        ("the TLB was hit and missed", data["tlb"]["hits"] > 0 and
         data["tlb"]["misses"] > 0),
        ("pages were pinned", data["tlb"]["pins"] > 0),
        ("latencies and bandwidths are there", len(data["figures"]) >= 6),
    )


def vmmc_facts(data):
    """Facts of the tour of VMMC."""
    stops = {row["step"]: row for row in data["stops"]}
    return (
        ("all stops were made, and all was right there", len(stops) == 9 and
         not any(row["bad"] for row in stops.values())),
        ("something was copied by a redirection, or nothing had to be",
         0 <= stops["redirection"]["copied"] <= stops["redirection"]["bytes"]),
        ("each way of writing was measured", len(data["ways"]) == 6 and
         all(row["median"] > 0 for row in data["ways"])),
        ("the card fetched for utlb, and not for tlb",
         data["misses"]["utlb"]["fetches"] > 0 and
         not data["misses"]["tlb"]["fetches"] and
         data["misses"]["tlb"]["misses"] > 0),
    )


def netvm_facts(data):
    """Facts of the tour of NetVM."""
    stops, mix = data["stops"], data["mix"]
    out = stops["paged-out"]
    return (
        ("all that was written was right", not any(
            row["bad"] for row in stops.values())),
        ("packets for resident pages were not redirected, but for pages that "
         "were changing", stops["resident"]["redirected"] <
         out["redirected"]),
        ("packets for absent pages were redirected, and copied once",
         out["out"] > 0 and out["redirected"] > 0 and
         out["copied"] == out["redirected"]),
        ("the sender was out of credits, and went on",
         out["credit_waits"] > 0),
        ("each way of waiting was measured", len(data["waits"]) == 4 and
         all(row["median"] > 0 for row in data["waits"].values())),
        ("the semaphore let one in at a time, and nobody was left waiting",
         not any(row["bad"] for row in data["syncs"].values())),
        ("tlb missed and pinned; shadow pinned nothing, and pushed",
         mix["tlb"]["misses"] > 0 and mix["tlb"]["pins"] > 0 and
         not mix["shadow"]["pins"] and mix["shadow"]["pushes"] > 0),
        ("shadow missed less than tlb", mix["shadow"]["misses"] <
         mix["tlb"]["misses"]),
    )


def npf_facts(data):
    """Facts of the tour of NIC page faults."""
    stops, faults, store = data["stops"], data["faults"], data["storage"]
    points = store["points"]
    return (
        ("all that was moved was right", not any(
            row["bad"] for row in stops.values())),
        ("pages that both cards know cause neither faults nor RNR NACKs",
         not stops["write"]["faults"] and not stops["write"]["rnr"]),
        ("512 pages that were paged out caused 1 to 63 faults", all(
            row["out"] > 0 and 0 < row["faults"] < 64
            for name, row in stops.items() if "out" in name)),
        ("requests to absent pages of the peer were answered by RNR NACKs", all(
            stops[name]["rnr"] > 0
            for name in ("write-out-there", "read-out-there"))),
        ("answers without a place were dropped", all(
            stops[name]["dropped"] > 0
            for name in ("read-out-here", "read-out-here-rewind"))),
        ("each stage was measured", all(
            faults[f"{name}, 4096"] >= 0
            for name in ("card", "interrupt", "wait", "find", "table",
                         "resume"))),
        ("a pinned buffer does not start where all memory is too little, and "
         "one that is not does", points[0]["pinned"] is None and
         points[0]["odp"] is not None),
        ("with more memory both do", all(
            point["pinned"] and point["odp"] for point in points[1:])),
        ("blocks of 64 KiB keep less than a quarter of the buffer resident",
         store["resident"]["odp-64k"] < store["resident"]["pinned-512k"] / 4),
    )


def ethernet_facts(data):
    """Facts of the tour of Ethernet."""
    net, cold = data["net"], data["cold"]
    curve = {run["policy"]: run for run in cold["curve"]}
    runs = cold["curve"] + cold["first"]
    return (
        ("the interface is the card's, and the only one",
         ": unetmm," in net["interface"]),
        ("DHCP gave an address", net["lease"].startswith("dhcp") or
         net["lease"][:1].isdigit()),
        ("each ping was answered", net["answers"] == net["pings"] > 0),
        ("every byte of the download was right", net["right"] is True),
        ("every value was right", not any(run["wrong"] for run in runs)),
        ("the backup ring kept the frames that a cold ring would have lost, "
         "and no frame was dropped", all(
             run["backup_packets"] > 0 and not run["drop_absent"] and
             run["done"] for run in cold["first"]
             if run["policy"] == "backup")),
        ("pinned buffers are never absent", not any(
            run["drop_absent"] or run["backup_packets"] for run in runs
            if run["policy"] == "pinned")),
        ("drop lost frames, and answered a tenth of backup at most",
         curve["drop"]["drop_absent"] > 0 and 10 *
         curve["drop"]["operations"] < curve["backup"]["operations"]),
    )


def mpi_facts(data):
    """Facts of the tour of MPI; the program has checked the bytes."""
    ways = data["ways"]
    return (
        ("copying takes longer than reading pinned memory", all(
            ways["copy"][f"{operation}, 1048576"] >
            ways["pin"][f"{operation}, 1048576"]
            for operation in ("sendrecv", "bcast", "alltoall"))),
        ("page faults take about the time of the pin-down cache", all(
            time < 1.25 * ways["pin"][name] for name, time in ways["npf"].items()
            if int(name.split()[-1]) >= 32768)),
    )


def verbs_facts(data):
    """Facts of the tour of verbs: times and rates of perftest, beside rdma_rxe's."""
    ways = data["ways"]
    small = [name for name in ways["rxe"] if "8 B" in name]
    large = [name for name in ways["rxe"] if "64 KiB" in name]
    return (
        ("8 B by librxe take half of rdma_rxe's time at most", all(
            2 * ways["odp"][name] < ways["rxe"][name] for name in small)),
        ("8 B by our provider take a twelfth at most", all(
            12 * ways["own"][name] < ways["rxe"][name] for name in small)),
        ("64 KiB go at 60 times rdma_rxe's rate by librxe, and at 90 times by our provider",
         all(ways["odp"][name] > 60 * ways["rxe"][name] and
             ways["own"][name] > 90 * ways["rxe"][name] for name in large)),
        ("on-demand paging costs a fiftieth at most", all(
            abs(ways["odp"][name] - figure) < figure / 50
            for name, figure in ways["card"].items())),
        ("no page is pinned", not any(
            counters["pinned_now"] for counters in data["counters"].values())),
    )
