// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lockstep-switch: an Ethernet switch in virtual time, between machines with
 * -device lockstep
 *
 * All links have one latency and one rate.  A boundary is held with all machines
 * at once: the switch reads each machine's frames and mark, forwards the frames
 * that arrive before the next boundary, and answers with its own mark.  Its
 * promise is the smallest of the machines' promises and of the arrivals of the
 * frames that it forwards, so that all machines come to the same next boundary.
 * docs/lockstep.rst has the rules, hw/net/unetmm/abi/lockstep_wire.h the messages.
 *
 * Nothing depends on the host: frames are forwarded in the order of their
 * arrival, of their port, of their sending.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glib.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lockstep_wire.h"

#define MOST_PORTS	64
#define HEADER_BYTES	14
#define MOST_STATIONS	4096
#define NEVER		INT64_MAX

struct frame {
	int64_t arrival;
	unsigned int port;
	uint64_t order;
	uint32_t bytes;
	uint8_t data[];
};

struct port {
	int fd;			/* -1: not connected, or gone */
	bool up;
	bool marked;		/* its mark of this boundary has come */
	int64_t promise;
	int64_t line_free;
	GByteArray *in;
	GByteArray *out;
	uint64_t waiting;	/* bytes of its frames that are not forwarded yet */
	int64_t latest;		/* arrival of its last frame */
	uint64_t burst;		/* bytes sent to it since the mark */
	uint64_t received, sent, dropped, dropped_burst;
};

static struct {
	const char *path;
	unsigned int ports;
	int64_t latency_ns, stop_ns;
	uint64_t bps, queue;
	bool cut_through;
	double timeout_s;
} opt = { .ports = 2, .latency_ns = 10000, .bps = 10000000000,
	  .queue = 1 << 20, .timeout_s = 300 };

static struct port ports[MOST_PORTS];
static GTree *frames;		/* struct frame, in order */
static GHashTable *stations;	/* MAC address: port + 1 */
static uint64_t order, boundaries, flooded;
static int64_t boundary = -1;

static void fail(const char *format, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;
static void fail(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "lockstep-switch: ");
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, "\n");
	unlink(opt.path);
	exit(1);
}

/* ---- Forwarding ---- */

static int frame_order(const void *a, const void *b, void *user)
{
	const struct frame *x = a, *y = b;

	(void)user;
	if (x->arrival != y->arrival)
		return x->arrival < y->arrival ? -1 : 1;
	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int64_t wire_ns(uint64_t bytes)
{
	return opt.bps ? (int64_t)((unsigned __int128)bytes * 8000000000 / opt.bps) : 0;
}

static void put(struct port *port, uint32_t type, int64_t time, int64_t promise,
		const void *data, uint32_t bytes)
{
	LockstepHead head = {
		.type = GUINT32_TO_LE(type),
		.bytes = GUINT32_TO_LE(bytes),
		.time = GINT64_TO_LE(time),
		.promise = GINT64_TO_LE(promise),
	};

	g_byte_array_append(port->out, (void *)&head, sizeof(head));
	if (bytes)
		g_byte_array_append(port->out, data, bytes);
}

/* Sends a frame by a port; returns its arrival there, or NEVER if it is dropped. */
static int64_t forward_by(const struct frame *frame, struct port *port)
{
	uint64_t wire = lockstep_line_bytes(frame->bytes);
	int64_t ready = frame->arrival, waits, arrival;

	if (!port->up)
		return NEVER;
	/* A frame that is cut through leaves when its header has come. */
	if (opt.cut_through)
		ready -= wire_ns(wire - HEADER_BYTES);
	waits = port->line_free - ready;
	if (waits > 0 && opt.bps && waits > wire_ns(opt.queue)) {
		port->dropped++;
		return NEVER;
	}
	if (wire > LOCKSTEP_MAX_BURST - port->burst) {
		port->dropped_burst++;
		return NEVER;
	}
	port->burst += wire;
	port->line_free = MAX(ready, port->line_free) + wire_ns(wire);
	arrival = port->line_free + opt.latency_ns;
	put(port, LOCKSTEP_FRAME, arrival, arrival, frame->data, frame->bytes);
	port->sent++;
	return arrival;
}

static uint64_t address(const uint8_t *at)
{
	uint64_t value = 0;

	memcpy(&value, at, 6);
	return value;
}

/* Forwards a frame; returns its first arrival. */
static int64_t forward(const struct frame *frame)
{
	int64_t first = NEVER;
	uint64_t to, from;
	unsigned int known;

	if (frame->bytes < HEADER_BYTES)
		return NEVER;
	to = address(frame->data);
	from = address(frame->data + 6);
	/* Frames to stations that find no room in the table are flooded. */
	if (!(frame->data[6] & 1) &&
	    (g_hash_table_size(stations) < MOST_STATIONS ||
	     g_hash_table_contains(stations, &from)))
		g_hash_table_insert(stations, g_memdup2(&from, sizeof(from)),
				    GUINT_TO_POINTER(frame->port + 1));
	known = frame->data[0] & 1 ? 0 :
		GPOINTER_TO_UINT(g_hash_table_lookup(stations, &to));
	if (known)
		return known - 1 == frame->port ? NEVER :
			forward_by(frame, &ports[known - 1]);
	flooded++;
	for (unsigned int i = 0; i < opt.ports; i++) {
		if (i != frame->port) {
			int64_t arrival = forward_by(frame, &ports[i]);

			first = MIN(first, arrival);
		}
	}
	return first;
}

/* ---- Messages ---- */

static void take_hello(struct port **slot, const LockstepHead *head,
		       const uint8_t *data)
{
	LockstepHello hello, mine;
	unsigned int number;
	struct port *port;

	memcpy(&hello, data, sizeof(hello));
	mine = hello;
	number = GUINT32_FROM_LE(hello.port);
	if (GUINT32_FROM_LE(hello.magic) != LOCKSTEP_MAGIC)
		fail("a machine speaks another protocol");
	if (number >= opt.ports || ports[number].up)
		fail("port=%u: there are %u ports, and each has one machine",
		     number, opt.ports);
	if ((int64_t)GUINT64_FROM_LE(hello.latency_ns) != opt.latency_ns)
		fail("port=%u has latency-ns=%" PRId64 ", the switch %" PRId64,
		     number, (int64_t)GUINT64_FROM_LE(hello.latency_ns),
		     opt.latency_ns);
	if ((int64_t)GUINT64_FROM_LE(hello.stop_ns) != opt.stop_ns)
		fail("port=%u has another stop-ns than the switch", number);
	if (boundary < 0)
		boundary = head->time;
	if (boundary != head->time)
		fail("port=%u begins at %" PRId64 " ns, others at %" PRId64 " ns",
		     number, head->time, boundary);
	/* The machine has said which port it is at. */
	port = &ports[number];
	port->fd = (*slot)->fd;
	port->in = (*slot)->in;
	port->out = g_byte_array_new();
	port->up = true;
	*slot = port;
	put(port, LOCKSTEP_HELLO, boundary, boundary, &mine, sizeof(mine));
}

static void take_frame(struct port *port, const LockstepHead *head,
		       const uint8_t *data)
{
	uint64_t line = lockstep_line_bytes(head->bytes);
	struct frame *frame;

	if (head->time < boundary)
		fail("port=%u: a frame is late: it should have arrived at %" PRId64
		     " ns", (unsigned int)(port - ports), head->time);
	if (head->time < port->latest)
		fail("port=%u: a frame overtakes the one before it",
		     (unsigned int)(port - ports));
	if (line > LOCKSTEP_MAX_FLIGHT - port->waiting)
		fail("port=%u has more than 128 MiB of frames on their way",
		     (unsigned int)(port - ports));
	port->waiting += line;
	port->latest = head->time;
	frame = g_malloc(sizeof(*frame) + head->bytes);
	frame->arrival = head->time;
	frame->port = port - ports;
	frame->order = order++;
	frame->bytes = head->bytes;
	memcpy(frame->data, data, head->bytes);
	g_tree_insert(frames, frame, frame);
	port->received++;
}

static void take(struct port **slot, const LockstepHead *head, const uint8_t *data)
{
	struct port *port = *slot;

	if ((head->type == LOCKSTEP_HELLO) == port->up)
		fail("a machine's messages are out of order");
	switch (head->type) {
	case LOCKSTEP_HELLO:
		if (head->bytes != sizeof(LockstepHello))
			fail("a HELLO has another length");
		take_hello(slot, head, data);
		break;
	case LOCKSTEP_FRAME:
		take_frame(port, head, data);
		break;
	case LOCKSTEP_MARK:
		if (head->time != boundary || head->promise < boundary)
			fail("port=%u is at boundary %" PRId64 " ns, the switch at "
			     "%" PRId64 " ns", (unsigned int)(port - ports),
			     head->time, boundary);
		port->promise = head->promise;
		port->marked = true;
		break;
	case LOCKSTEP_BYE:
		close(port->fd);
		port->fd = -1;
		port->up = false;
		port->marked = true;
		port->promise = NEVER;
	}
}

/* Reads messages up to the mark. */
static void parse(struct port **slot)
{
	while (!(*slot)->marked) {
		GByteArray *in = (*slot)->in;
		LockstepHead head;
		size_t length;

		if (in->len < sizeof(head))
			return;
		memcpy(&head, in->data, sizeof(head));
		head.type = GUINT32_FROM_LE(head.type);
		head.bytes = GUINT32_FROM_LE(head.bytes);
		head.time = GINT64_FROM_LE(head.time);
		head.promise = GINT64_FROM_LE(head.promise);
		if (head.type < LOCKSTEP_HELLO || head.type > LOCKSTEP_BYE ||
		    head.bytes > LOCKSTEP_MAX_FRAME || head.time < 0 ||
		    head.time > LOCKSTEP_MAX_TIME ||
		    head.promise > LOCKSTEP_MAX_TIME)
			fail("a machine speaks another protocol (impossible message)");
		length = sizeof(head) + head.bytes;
		if (in->len < length)
			return;
		take(slot, &head, in->data + sizeof(head));
		g_byte_array_remove_range(in, 0, length);
	}
}

/* ---- Sockets ---- */

/* Receives without waiting; fails if the machine has gone without a BYE. */
static void receive(struct port **slot)
{
	uint8_t bytes[65536];
	ssize_t n = recv((*slot)->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		fail("a machine is gone without a BYE, at %" PRId64 " ns", boundary);
	g_byte_array_append((*slot)->in, bytes, n);
	parse(slot);
}

static void transmit(struct port *port)
{
	ssize_t n = send(port->fd, port->out->data, port->out->len,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0)
		g_byte_array_remove_range(port->out, 0, n);
	else if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		g_byte_array_set_size(port->out, 0);	/* its BYE is to be read */
}

static void wait_for(struct pollfd *fds, unsigned int n)
{
	int ready = poll(fds, n, opt.timeout_s ? (int)(opt.timeout_s * 1000) : -1);

	if (!ready)
		fail("no word from a machine for %g s (--timeout), at %" PRId64 " ns",
		     opt.timeout_s, boundary);
}

/* Until each machine has given its mark, and has all that was sent to it. */
static void exchange(void)
{
	for (;;) {
		struct pollfd fds[MOST_PORTS];
		struct port *of[MOST_PORTS];
		unsigned int n = 0;

		for (unsigned int i = 0; i < opt.ports; i++) {
			struct port *port = &ports[i];

			if (port->up && port->out->len)
				transmit(port);
			if (port->up && !port->marked)
				parse(&port);
			if (!port->up || (port->marked && !port->out->len))
				continue;
			of[n] = port;
			fds[n].fd = port->fd;
			fds[n++].events = (port->marked ? 0 : POLLIN) |
				(port->out->len ? POLLOUT : 0);
		}
		if (!n)
			return;
		wait_for(fds, n);
		for (unsigned int i = 0; i < n; i++) {
			if (fds[i].revents & (POLLIN | POLLHUP | POLLERR) &&
			    !of[i]->marked)
				receive(&of[i]);
		}
	}
}

/* Accepts the machines; each says in its HELLO which port it is at. */
static void meet(int listener)
{
	for (unsigned int n = 0; n < opt.ports; n++) {
		struct pollfd fd = { .fd = listener, .events = POLLIN };
		struct port newcomer = { .in = g_byte_array_new() };
		struct port *slot = &newcomer;

		wait_for(&fd, 1);
		newcomer.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (newcomer.fd < 0)
			fail("accept: %s", strerror(errno));
		while (!slot->up) {
			fd.fd = newcomer.fd;
			wait_for(&fd, 1);
			receive(&slot);
		}
	}
	unlink(opt.path);
}

/* ---- Boundaries ---- */

static bool anybody(void)
{
	for (unsigned int i = 0; i < opt.ports; i++) {
		if (ports[i].up)
			return true;
	}
	return false;
}

static void hold_boundary(void)
{
	int64_t promise = NEVER;
	GTreeNode *node;

	exchange();
	for (unsigned int i = 0; i < opt.ports; i++)
		promise = MIN(promise, ports[i].promise);
	if (promise == NEVER)
		promise = boundary;
	while ((node = g_tree_node_first(frames))) {
		struct frame *frame = g_tree_node_key(node);
		int64_t arrival;

		if (frame->arrival >= promise + opt.latency_ns)
			break;
		arrival = forward(frame);
		promise = MIN(promise, arrival);
		ports[frame->port].waiting -= lockstep_line_bytes(frame->bytes);
		g_tree_remove(frames, frame);
	}
	/* Frames that are left are forwarded later, and must not be late then. */
	if (node)
		promise = MIN(promise, ((struct frame *)g_tree_node_key(node))->arrival);
	boundaries++;
	for (unsigned int i = 0; i < opt.ports; i++) {
		if (ports[i].up) {
			put(&ports[i], LOCKSTEP_MARK, boundary, promise, NULL, 0);
			ports[i].marked = false;
			ports[i].burst = 0;
		}
	}
	if (opt.stop_ns > boundary)
		boundary = MIN(promise + opt.latency_ns, opt.stop_ns);
	else
		boundary = promise + opt.latency_ns;
}

/* ---- Options ---- */

static void usage(FILE *to)
{
	fprintf(to,
"Usage: lockstep-switch [options] PATH\n"
"\n"
"An Ethernet switch in virtual time. Each machine is one with\n"
"  -device lockstep,path=PATH,port=N,latency-ns=...\n"
"and N from 0. When all have ended, counters are printed as JSON.\n"
"\n"
"  --ports N       machines, 1 to 64 (default: 2)\n"
"  --latency NS    of each link (default: 10000)\n"
"  --bps N         of each link, 0 for no limit (default: 10000000000)\n"
"  --queue BYTES   a frame that finds more before an output is dropped, up to\n"
"                  16777216 (default: 1048576)\n"
"  --cut-through   a frame leaves when its header has come, not its end\n"
"  --stop NS       as stop-ns of the machines\n"
"  --timeout S     so long a machine may be silent, 0 for ever (default: 300)\n"
"\n"
"Example: a switch for three machines, links of 1 us and 25 Gb/s\n"
"  lockstep-switch --ports 3 --latency 1000 --bps 25000000000 /tmp/switch\n");
}

static uint64_t number(const char *text, uint64_t least, uint64_t most,
		       const char *option)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < least ||
	    value > most)
		fail("%s %s: use %" PRIu64 " to %" PRIu64, option, text, least, most);
	return value;
}

static void options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "ports", 1, NULL, 'p' }, { "latency", 1, NULL, 'l' },
		{ "bps", 1, NULL, 'b' }, { "queue", 1, NULL, 'q' },
		{ "cut-through", 0, NULL, 'c' }, { "stop", 1, NULL, 's' },
		{ "timeout", 1, NULL, 't' }, { "help", 0, NULL, 'h' }, { 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		switch (c) {
		case 'p': opt.ports = number(optarg, 1, MOST_PORTS, "--ports"); break;
		case 'l': opt.latency_ns = number(optarg, 1, LOCKSTEP_MAX_TIME, "--latency");
			break;
		case 'b': opt.bps = number(optarg, 0, UINT32_MAX * 1000ull, "--bps"); break;
		case 'q': opt.queue = number(optarg, 0, LOCKSTEP_MAX_QUEUE, "--queue"); break;
		case 'c': opt.cut_through = true; break;
		case 's': opt.stop_ns = number(optarg, 0, LOCKSTEP_MAX_TIME, "--stop"); break;
		case 't': opt.timeout_s = number(optarg, 0, 1000000, "--timeout"); break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind != argc - 1) {
		usage(stderr);
		exit(2);
	}
	opt.path = argv[optind];
}

static int listen_at(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(to.sun_path))
		fail("%s: the path of a UNIX socket has 1 to 107 characters", path);
	strcpy(to.sun_path, path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    listen(fd, MOST_PORTS))
		fail("%s: %s", path, strerror(errno));
	return fd;
}

static void report(void)
{
	printf("{\"boundaries\":%" PRIu64 ",\"flooded\":%" PRIu64
	       ",\"time_ns\":%" PRId64 ",\"ports\":[", boundaries, flooded, boundary);
	for (unsigned int i = 0; i < opt.ports; i++)
		printf("%s{\"received\":%" PRIu64 ",\"sent\":%" PRIu64
		       ",\"dropped\":%" PRIu64 ",\"dropped_burst\":%" PRIu64 "}",
		       i ? "," : "", ports[i].received, ports[i].sent,
		       ports[i].dropped, ports[i].dropped_burst);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	options(argc, argv);
	frames = g_tree_new_full(frame_order, NULL, g_free, NULL);
	stations = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	meet(listen_at(opt.path));
	while (anybody())
		hold_boundary();
	report();
	return 0;
}
