# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/top and scripts/watch, for tests/tools/run."""

import json
import os
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from unittest import mock

from livecards import Found, served
from figuretests import refused
from unetmm_tools import SCRIPTS
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import live, top, watch

LIMIT = 120


def live_state(directory):
    """top: queues, faults in flight, rates and histories of pages, from looks and a trace"""
    found = Found(directory)
    first, second = found.live.look(), found.live.look()
    a, b = second["cards"]
    require(a["endpoints"] == [{"id": 3, "space": 1, "sends": 4, "buffers": 7, "completions": 0,
                                "state": "waits for a page"}], f"{a}")
    require([(fault["id"], fault["stage"]) for fault in a["faults"]] == [(0x40, "reported")] and
            not b["faults"] and a["traced"] and not b["traced"], f"{a} {b}")
    require(not first["cards"][0]["rates"] and a["rates"]["sends_done"] > 0, f"{a['rates']}")
    with open(found.trace, "a", encoding="ascii") as file:
        file.write("1@2.0:unetmm_reply id 0x40 sta")
    require(found.live.look()["cards"][0]["faults"], "a half line counts")
    with open(found.trace, "a", encoding="ascii") as file:
        file.write("tus 1 vaddr 0\n1@2.000001:unetmm_reply id 0x40 status 1 vaddr 0x30000 npages 1\n")
    require(found.live.look()["cards"][0]["faults"][0]["stage"].startswith("deferred"), "deferred")
    for fake in found.fakes:
        del fake.tlb[0]
        fake.tlb[70] = fake.tlb.pop(5)
    found.live.look()
    require([event["text"] for event in found.live.history("a", 1, 0x10)] ==
            ["entered the TLB", "is in the TLB no more (was in slot 0)"] and
            found.live.history("a", 1, 0x10)[0]["time"] == 1, "history of a")
    require([event["text"] for event in found.live.history("b", 1, 0x20)] ==
            ["is in the TLB, in slot 5", "moved from slot 5 to 70"], "history of b")
    require(found.live.history("c", 1, 0x20) == [], "a card that is not there")
    lines = list(top.lines_of(found.live.look(), found.ends(), 80))
    for words in ("guest a: running", "TLB 1 of 80 (64 sets of 1, 1 of 16 victims), 0 in a transfer",
                  "guest b: running; the command ended with status 0: done <b>"):
        require(words in "\n".join(lines), f"no {words} in {lines}")


def live_time(directory):
    """top: pause, step, slow and run stop the guests and let them go on, also when one is gone"""
    found = Found(directory)
    fake = found.fakes[0]
    for mode, commands, after in (("pause", ["stop"], "pause"), ("step", ["cont", "stop"], "pause"),
                                  ("slow", ["cont", "stop"], "slow"), ("run", ["cont"], "run")):
        del fake.commands[:]
        found.live.control(mode)
        require(fake.commands == commands and found.live.mode == after, f"{mode}: {fake.commands}")
    found.live.control("slow")
    del fake.commands[:]
    found.live.rest(0.1)
    require(len(fake.commands) >= 4 and fake.commands[:2] == ["cont", "stop"], f"{fake.commands}")
    found.fakes[1].gone = True
    state = found.live.look()
    require(state["cards"][1]["state"] == "ended" and state["cards"][0]["tlb"], f"{state}")
    found.live.release()
    require(fake.commands[-1] == "cont", f"{fake.commands}")
    try:
        found.live.control("fast")
    except live.LiveError as error:
        require("run, pause, step, slow" in str(error), f"{error}")
    else:
        raise AssertionError("fast is taken")


def live_slow_ends(directory):
    """top: guests that were slow run on when another thread says run"""
    found = Found(directory)
    for fake in found.fakes:
        fake.delay = 0.001
    done, passed = threading.Event(), threading.Semaphore(0)

    def work():
        while not done.is_set():
            found.live.rest(0.001)
            passed.release()

    resting = threading.Thread(target=work)
    resting.start()
    try:
        for _ in range(50):
            found.live.control("slow")
            found.fakes[0].turned.clear()
            require(found.fakes[0].turned.wait(LIMIT), "no turn")
            found.live.control("run")
            while passed.acquire(blocking=False):
                pass
            # The turn that was under way has ended after two more.
            require(passed.acquire(timeout=LIMIT) and passed.acquire(timeout=LIMIT), "no end")
            require(found.fakes[0].commands[-1] == "cont", f"{found.fakes[0].commands[-4:]}")
    finally:
        done.set()
        resting.join()


def live_long_trace(directory):
    """top: a trace that is longer than one piece is read to its end; one too long ends the events"""
    found = Found(directory)
    with mock.patch.object(live, "TRACE_PIECE", 50):
        require([fault["id"] for fault in found.live.look()["cards"][0]["faults"]] == [0x40], "faults")
    with mock.patch.object(live, "MOST_TRACE", 50):
        require(not found.live.look()["cards"][0]["traced"], "the trace has no end")


def asked(address, path="/", method="GET", host=None, **more):
    """(status, text) of a request."""
    base, _, key = address.partition("/?")
    query = "&".join([key, *(f"{name}={value}" for name, value in more.items())])
    request = urllib.request.Request(f"{base}{path}?{query}", method=method)
    if host:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def watch_server(_directory):
    """watch: the page, its events and its buttons; a request without the key, or of another host, is refused"""
    with served() as (server, fakes):
        address = server.address
        status, page = asked(address)
        require(status == 200 and "<title>unetmm: running cards</title>" in page, f"{status}")
        require("http" not in page.replace("http-equiv", ""), "the page names another server")
        with urllib.request.urlopen(address.replace("/?", "/events?"), timeout=LIMIT) as stream:
            state = json.loads(stream.readline().decode().removeprefix("data: "))
        require([card["name"] for card in state["cards"]] == ["a", "b"] and
                state["ended"] == {"b": [0, "done <b>"]}, f"{state}")
        status, text = asked(address, "/history", card="a", space=1, page=16)
        require(status == 200 and json.loads(text)[0]["text"] == "entered the TLB", text)
        require(asked(address, "/control", "POST", mode="pause")[0] == 200 and
                fakes[0].commands == ["stop"], f"{fakes[0].commands}")
        for wrong, expected in (
                (asked(address, "/control", "POST", mode="fast"), 400),
                (asked(address, "/control", mode="run"), 404), (asked(address, "/../etc"), 404),
                (asked(address, "/history", card="a", space="x", page=1), 400),
                (asked(address[:-1]), 403), (asked(address.partition("?")[0] + "?"), 403),
                (asked(address[:-1], "/control", "POST", mode="run"), 403),
                (asked(address, host="evil.example"), 403)):
            require(wrong[0] == expected, f"{wrong}, not {expected}")
        require(fakes[0].commands == ["stop"], f"{fakes[0].commands}")
        # A viewer that goes away does not end the others.
        with urllib.request.urlopen(address.replace("/?", "/events?"), timeout=LIMIT) as stream:
            for _ in range(3):
                require(stream.readline().startswith(b"data: ") and not stream.readline().strip(), "")


def watch_before_the_first_look(directory):
    """watch: a viewer whose server has not looked yet gets no state"""
    hub = watch.Hub(Found(directory), 1)
    with mock.patch.object(watch, "HEARTBEAT", 0.01):
        require(hub.after(0) == (0, None), f"{hub.after(0)}")
        hub.close()
        require(hub.after(0) is None, "no end")


def live_mistakes(directory):
    """top, watch: mistakes are answered in one sentence, before a guest is booted"""
    path = os.path.join(directory, "socket")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        for name in ("top", "watch"):
            for arguments, words in (
                    ([], "name a command behind --"), (["--"], "behind --"),
                    (["--qmp", "none"], "none: there is no such socket"),
                    (["--qmp", path], "no QEMU answers there"),
                    (["--qmp", path, "--", "true"], "name a command"),
                    (["--interval", "0", "--", "true"], "0.05 to 60"),
                    (["--interval", "nan", "--", "true"], "0.05 to 60"),
                    (["--fast", "--", "true"], "--help"), (["--", " "], "is empty"),
                    (["--", "a"] * 9, "use 1 to 8")):
                refused(name, arguments, words)
    refused("watch", ["--port", "65536", "--", "true"], "0 to 65535")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        refused("watch", ["--port", str(port), "--", "true"], f"--port {port}: Address already in use")
    refused("top", ["--count", "0", "--", "true"], "from 1 on")


def live_guest(_directory):
    """top: a guest's card while it sends to itself: endpoints, pages and counters"""
    command = [os.path.join(SCRIPTS, "top"), "--json", "--count", "300", "--interval", "1", "--",
               "unetmm-pingpong --listen", "--",
               "unetmm-pingpong $PEER --timeout 120 --count 1000000 --size 4k"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top_of_two:
        for line in top_of_two.stdout:
            a, b = json.loads(line)["cards"]
            if a["state"] == "running" and len(a["endpoints"]) >= 2 and b["tlb"] and a["traced"] and \
                    a["sets"] == 1024 and b["counters"].get("sends_done") and \
                    b["counters"].get("rx_frames"):
                break
        else:
            raise AssertionError(f"none of 300 looks: {line[:2000]}")
        top_of_two.terminate()
        top_of_two.stdout.read()
    require(top_of_two.returncode == 130, f"status {top_of_two.returncode}")


TESTS = (live_state, live_time, live_slow_ends, live_long_trace, watch_server,
         watch_before_the_first_look, live_mistakes, live_guest)
