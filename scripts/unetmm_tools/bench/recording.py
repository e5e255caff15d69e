# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of programs (UNETMM_RECORD) as traces of scripts/scale, scripts/compare and
scripts/tlb-sim.

scripts/recording runs main(); guest-lib/src/recording/posts.c has the form of a line.
"""

import argparse
import collections
import itertools
import re
import sys

DESCRIPTION = """\
Makes traces of recordings: of the files that the library writes where the environment has
UNETMM_RECORD=FILE (libunetmm(7)).  Prints the trace; a line on standard error has its counts.
"""
EXAMPLES = """\
examples:
  The sends of two hosts, as a workload of eight:
    scripts/recording merge a.rec b.rec >run.txt
    scripts/scale --nodes 8 --workload replay --trace run.txt
  The pages that a process uses, on TLBs of three sizes:
    scripts/recording pages b.rec >pages
    scripts/compare --trace pages --source tlb --entries 64,256,1024
"""
# As sim/scale/replay.c takes them
MOST_SENDS = 1 << 22
MOST_US = 10**9
MOST_BYTES = 1 << 20
MOST_MESSAGE = 1 << 22          # of a reliable channel
MOST_HOSTS = 1022

SOON_SECONDS = 10               # the time of a run of scripts/scale, if nothing else is said
MOST_LINE = 1000                # bytes; the library's longest has less
MOST_PAGES = 1 << 24
PAGE = 4096
MAC = rb"[0-9a-f]{2}(?::[0-9a-f]{2}){5}"
PIECE = rb"0x[0-9a-f]{1,16}\+[1-9]\d{0,9}"
HEADING = re.compile(rb"unetmm-recording (\d{1,9}) \d{1,10} (\d{1,19})")
LINE = re.compile(rb"(\d{1,19}) (endpoint|send|write|read|fetch-add|cmp-swap|frame|buffer|lost) "
                  rb"(\d{1,9}) (-|" + MAC + rb") (\d{1,11}) (-|" + PIECE + rb"(?:," + PIECE +
                  rb"){0,15})")
NO_PEER = ("frame", "buffer", "lost")

# One post: its time by the clock of its host and since the recording's start, the addresses of
# both cards, ((address, bytes), ...), the number of its recording and of its line
Post = collections.namedtuple("Post", ("clock", "since", "operation", "card", "peer", "bytes",
                                       "pieces", "space", "line"))


class RecordingError(Exception):
    """One sentence for the user."""


# ---- Reading ---------------------------------------------------------------------------

def lines_of(path):
    """(number, text) of each whole line."""
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) > MOST_LINE:
                    raise RecordingError(f"{path}:{number}: the line is too long")
                # The process or its machine was ended.
                print(f"{path}:{number}: the last line is cut off, and left out", file=sys.stderr)
                return
            yield number, line[:-1]


def pieces_of(text):
    """((address, bytes), ...)"""
    if text == b"-":
        return ()
    found = (piece.split(b"+") for piece in text.split(b","))
    return tuple((int(address, 16), int(length)) for address, length in found)


def refuse(path, line, text):
    """An error of this line."""
    raise RecordingError(f"{path}:{line}: {text}")


class Reader:
    """The posts of one recording, of process number `space`."""

    def __init__(self, path, space):
        self.path = path
        self.space = space
        self.cards = {}                 # by the number of an endpoint
        self.lost = 0

    def posts(self):
        """Yields all, in the order of the file."""
        began = None
        for number, line in lines_of(self.path):
            if began is None:
                heading = HEADING.fullmatch(line)
                if not heading:
                    refuse(self.path, number, "this is no recording: use a file of UNETMM_RECORD")
                if heading[1] != b"1":
                    refuse(self.path, number, f"this recording has form {int(heading[1])}, and "
                           "form 1 is known")
                began = int(heading[2])
            else:
                post = self.post(number, line, began)
                if post:
                    yield post
        if began is None:
            raise RecordingError(f"{self.path}: the recording is empty")

    def post(self, line, text, began):
        """One line's, or None if it is about something else."""
        words = LINE.fullmatch(text)
        if not words:
            refuse(self.path, line, "use NS OPERATION ENDPOINT PEER BYTES PIECES (docs/scale.rst)")
        since, number, amount = int(words[1]), int(words[3]), int(words[5])
        # There may be millions of posts, of few operations and peers.
        operation, peer = (sys.intern(words[at].decode()) for at in (2, 4))
        if (peer == "-") != (operation in NO_PEER):
            refuse(self.path, line, f"{operation} has " + (
                "no peer" if operation in NO_PEER else "an address as its fourth word"))
        if operation == "lost":
            self.lost += amount
            return None
        if operation == "endpoint":
            if number in self.cards:
                refuse(self.path, line, f"endpoint {number} was there before")
            self.cards[number] = peer
            return None
        if number not in self.cards:
            refuse(self.path, line, f"no line above makes endpoint {number}")
        if operation != "buffer" and amount > MOST_MESSAGE:
            refuse(self.path, line, f"{operation} has {amount} bytes, and a message has "
                   f"{MOST_MESSAGE} at most")
        pieces = pieces_of(words[6])
        if pieces and sum(length for _, length in pieces) != amount:
            refuse(self.path, line, f"the pieces do not have {amount} bytes")
        return Post(began + since, since, operation, self.cards[number], peer, amount, pieces,
                    self.space, line)


def read(paths, wanted, most, what, pieces=True):
    """(posts of all recordings that are wanted, the readers)"""
    found, readers = [], [Reader(path, space) for space, path in enumerate(paths)]
    for reader in readers:
        for post in reader.posts():
            if wanted(post):
                if len(found) == most:
                    refuse(reader.path, post.line, f"there are more than {most} {what}")
                found.append(post if pieces else post._replace(pieces=()))
        if reader.lost:
            print(f"{reader.path}: {reader.lost} posts of signal handlers are missing",
                  file=sys.stderr)
    return found, readers


# ---- merge -------------------------------------------------------------------------------

def numbers_of(posts, readers):
    """{address: number of the host}: recorded hosts first, then their peers; of these posts"""
    found, named = {}, {card for post in posts for card in (post.card, post.peer)}
    for reader in readers:
        for number in sorted(reader.cards):
            if reader.cards[number] in named:
                found.setdefault(reader.cards[number], len(found))
    for post in posts:
        found.setdefault(post.peer, len(found))
    if len(found) > MOST_HOSTS:
        raise RecordingError(f"the recordings have {len(found)} hosts, and a trace has "
                             f"{MOST_HOSTS} at most")
    return found


def times_of(posts, align):
    """Each post with its time in the trace, in ns, by that time."""
    first = {}
    for post in posts:
        key, at = (post.space, post.since) if align == "first" else (None, post.clock)
        first[key] = min(first.get(key, at), at)
    times = [(post.since - first[post.space] if align == "first" else post.clock - first[None],
              post) for post in posts]
    times.sort(key=lambda each: each[0])
    return times


def sends_of(times, hosts, paths):
    """(a line of the trace, its bytes) of each send.  The data of a read goes from the peer to the host."""
    for at, post in times:
        if at > MOST_US * 1000:
            refuse(paths[post.space], post.line, f"this is more than {MOST_US // 10**6} seconds "
                   "behind the first send: the clocks of the hosts differ, or the run was too long")
        host, peer = hosts[post.card], hosts[post.peer]
        if post.operation == "read":
            host, peer = peer, host
        left = max(post.bytes, 1)
        while left:
            now = min(left, MOST_BYTES)
            yield f"{at // 1000}.{at % 1000:03} {host} {peer} {now}", now
            left -= now


def merge(options):
    """One trace for all hosts."""
    left_out = collections.Counter()

    def wanted(post):
        if post.operation == "buffer":
            return False
        why = "frames" if post.operation == "frame" else \
            "sends of a host to itself" if post.peer == post.card else None
        left_out[why] += 1
        return not why

    posts, readers = read(options.files, wanted, MOST_SENDS, "sends", pieces=False)
    if not posts:
        raise RecordingError("the recordings have no send from one host to another")
    hosts = numbers_of(posts, readers)
    lines = list(itertools.islice(sends_of(times_of(posts, options.align), hosts, options.files),
                                  MOST_SENDS + 1))
    if len(lines) > MOST_SENDS:
        raise RecordingError(f"there are more than {MOST_SENDS} sends of up to {MOST_BYTES} bytes")
    named = [f"# host {number}: {mac}" + "".join(
        f" {reader.path}" for reader in readers if mac in reader.cards.values())
             for mac, number in hosts.items()]
    print("\n".join(["# MICROSECONDS HOST PEER BYTES", *(
        re.sub(r"[^\x20-\x7e]", "?", text) for text in named), *(line for line, _ in lines)]))
    most = max(size for _, size in lines)
    # The last sends have time to end.
    seconds = int(float(lines[-1][0].partition(" ")[0]) / 1e6) + 2
    print(f"{len(hosts)} hosts, {len(lines)} sends" + "".join(
        f"; left out: {count} {why}" for why, count in left_out.items() if why and count) +
          f"; for scripts/scale --workload replay --nodes {len(hosts)} --set bytes={most}" + (
              f" --set until={seconds}" if seconds > SOON_SECONDS else ""),
          file=sys.stderr)


# ---- pages -------------------------------------------------------------------------------

def pages(options):
    """The pages that the card uses."""
    def wanted(post):
        return bool(post.pieces) and options.card in (None, post.card) and options.direction in (
            "both", "receive" if post.operation == "buffer" else "send")

    posts, readers = read(options.files, wanted, MOST_PAGES, "pages")
    cards = sorted({card for reader in readers for card in reader.cards.values()})
    if options.card is None and len(cards) > 1:
        raise RecordingError(f"the recordings have {len(cards)} cards, of which each has a TLB: "
                             f"choose one by --card ({', '.join(cards[:4])})")
    posts.sort(key=lambda post: post.clock)
    count, out = 0, []
    for post in posts:
        for address, length in post.pieces:
            # The card refuses such a piece.
            if address + length > 1 << 64:
                continue
            first, last = address // PAGE, (address + length - 1) // PAGE
            count += last - first + 1
            if count > MOST_PAGES:
                refuse(options.files[post.space], post.line, f"there are more than {MOST_PAGES} pages")
            out += [f"{post.space} {page:#x}" for page in range(first, last + 1)]
    if not out:
        raise RecordingError("the recordings have no such pages")
    print("# SPACE PAGE")
    print("\n".join(out))
    print(f"{len(readers)} processes, {count} references to "
          f"{len(set(out))} pages", file=sys.stderr)


# ---- Options -----------------------------------------------------------------------------

def mac_of(text):
    """The value of --card."""
    if not re.fullmatch(MAC.decode(), text.lower()):
        raise argparse.ArgumentTypeError(f"{text}: use an address as 52:54:00:00:00:01")
    return text.lower()


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(
        prog="scripts/recording", allow_abbrev=False, description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(metavar="COMMAND", required=True)
    one = sub.add_parser("merge", allow_abbrev=False, help="a trace for scripts/scale",
                         description="Prints the sends of all recordings, which may be of several "
                         "hosts, as one trace of scripts/scale --workload replay.")
    one.set_defaults(run=merge)
    one.add_argument("--align", choices=("clock", "first"), default="clock",
                     help="clock: the hosts have one time, by NTP or PTP; first: the first sends "
                     "of all recordings are at one time (default: clock)")
    one.add_argument("files", nargs="+", metavar="FILE", help="of UNETMM_RECORD")
    one = sub.add_parser("pages", allow_abbrev=False,
                         help="a trace for scripts/compare and scripts/tlb-sim",
                         description="Prints the pages that posts name, in the order of the "
                         "posts: a space for each recording, from 0 on.")
    one.set_defaults(run=pages)
    one.add_argument("--direction", choices=("send", "receive", "both"), default="both",
                     help="the pages of the send queue, of posted buffers, or of both "
                     "(default: both)")
    one.add_argument("--card", type=mac_of, metavar="MAC", help="the endpoints of this card alone")
    one.add_argument("files", nargs="+", metavar="FILE", help="of UNETMM_RECORD")
    return parser.parse_args(arguments)


def main(arguments=None):
    """scripts/recording."""
    options = parse(arguments)
    try:
        options.run(options)
        return 0
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (RecordingError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
