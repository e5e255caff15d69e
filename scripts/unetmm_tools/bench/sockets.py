# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of sockperf and iperf3, as rows for scripts/demo and scripts/bench."""

import json
import re


class SocketsError(Exception):
    """A tool did not print a figure; the text is the tool's output."""


def row(peer, mode, metric, size, frame, median, p99, count, unit, **more):
    """One figure."""
    return {"peer": peer, "mode": mode, "metric": metric, "bytes": size,
            "frame": frame, "median": median, "p99": p99, "n": count,
            "unit": unit, **more}


def sockperf_row(text, peer):
    """sockperf prints half of the round trip, its percentiles, and the lost messages."""
    figures = {key: float(value) for key, value in re.findall(
        r"percentile (\d+\.\d+) =\s*([\d.]+)", text)}
    count = re.search(r"ReceivedMessages=(\d+)", text)
    lost = re.search(r"dropped messages = (\d+)", text)
    if "50.000" not in figures or not count:
        raise SocketsError(f"sockperf said: {text[-300:]}")
    return row(peer, "block", "latency", 14, 1500, figures["50.000"],
               figures.get("99.000"), int(count[1]), "us",
               p999=figures.get("99.900"), lost=int(lost[1]) if lost else 0)


def iperf_row(report, peer, mtu):
    """iperf3's receiver; the report is its JSON, as text or read already."""
    try:
        if isinstance(report, str):
            report = json.loads(report)
        received = report["end"]["sum_received"]["bits_per_second"] / 8e6
    except (KeyError, TypeError, ValueError):
        raise SocketsError(f"iperf3 said: {str(report)[:300]}") from None
    return row(peer, "block", "bandwidth", 131072, mtu, received, None, 1,
               "MB/s")
