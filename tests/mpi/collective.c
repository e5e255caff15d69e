// SPDX-License-Identifier: GPL-2.0-or-later
/* Collective operations; each result is checked on each rank. */
#include "common.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
"Usage: mpirun [-n RANKS] mpi-collective [OPERATION,...] [options]\n"
"\n"
"Runs sendrecv, bcast, allreduce, allgather, alltoall, reduce_scatter, or all of\n"
"them.  Results are checked on each rank.  The time is the slowest rank's.\n";

struct work {
	const struct mpi_options *options;
	size_t size;		/* bytes of a block, a multiple of 8 */
	unsigned int n;		/* the repetition */
	char *out, *in;		/* a block for each rank */
};

/* begin() fills, run() is measured, check() looks at the result. */
struct operation {
	const char *name;
	void (*begin)(struct work *work);
	void (*run)(struct work *work);
	void (*check)(struct work *work);
};

static uint64_t key(const struct work *work, int from, int to)
{
	return work->options->seed * 1000003 + work->n * 65537ull +
	       (uint64_t)from * 256 + (uint64_t)to;
}

static int right(void) { return (mpi_rank + 1) % mpi_ranks; }
static int left(void) { return (mpi_rank + mpi_ranks - 1) % mpi_ranks; }

static void begin_blocks(struct work *work)
{
	int to;

	for (to = 0; to < mpi_ranks; to++)
		mpi_fill(work->out + to * work->size, work->size,
			 key(work, mpi_rank, to));
	memset(work->in, 0xee, work->size * mpi_ranks);
}

static void run_sendrecv(struct work *work)
{
	MPI_Sendrecv(work->out + right() * work->size, work->size, MPI_BYTE,
		     right(), 1, work->in, work->size, MPI_BYTE, left(), 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void check_sendrecv(struct work *work)
{
	mpi_check(work->in, work->size, key(work, left(), mpi_rank),
		  "sendrecv");
}

static int root(const struct work *work) { return work->n % mpi_ranks; }

static void begin_bcast(struct work *work)
{
	if (mpi_rank == root(work))
		mpi_fill(work->in, work->size, key(work, mpi_rank, 0));
	else
		memset(work->in, 0xee, work->size);
}

static void run_bcast(struct work *work)
{
	MPI_Bcast(work->in, work->size, MPI_BYTE, root(work), MPI_COMM_WORLD);
}

static void check_bcast(struct work *work)
{
	mpi_check(work->in, work->size, key(work, root(work), 0), "bcast");
}

/* Sums of whole numbers below 2^32 are exact in any order. */
static uint64_t addend(const struct work *work, int from, size_t at)
{
	uint64_t state = key(work, from, 0) + at * 0x1000193;

	return mpi_random(&state) >> 40;
}

static void begin_sums(struct work *work, size_t n)
{
	uint64_t *out = (uint64_t *)work->out;
	size_t at;

	for (at = 0; at < n; at++)
		out[at] = addend(work, mpi_rank, at);
	memset(work->in, 0xee, work->size * mpi_ranks);
}

static void check_sums(struct work *work, size_t first, const char *where)
{
	const uint64_t *in = (uint64_t *)work->in;
	size_t at, n = work->size / sizeof(*in);
	uint64_t sum;
	int from;

	for (at = 0; at < n; at++) {
		for (sum = 0, from = 0; from < mpi_ranks; from++)
			sum += addend(work, from, first + at);
		if (in[at] != sum)
			mpi_die("%s: sum %zu is %llu, not %llu", where, at,
				(unsigned long long)in[at],
				(unsigned long long)sum);
	}
}

static void begin_allreduce(struct work *work)
{
	begin_sums(work, work->size / sizeof(uint64_t));
}

static void run_allreduce(struct work *work)
{
	MPI_Allreduce(work->out, work->in, work->size / sizeof(uint64_t),
		      MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void check_allreduce(struct work *work)
{
	check_sums(work, 0, "allreduce");
}

static void begin_reduce_scatter(struct work *work)
{
	begin_sums(work, mpi_ranks * work->size / sizeof(uint64_t));
}

static void run_reduce_scatter(struct work *work)
{
	MPI_Reduce_scatter_block(work->out, work->in,
				 work->size / sizeof(uint64_t), MPI_UINT64_T,
				 MPI_SUM, MPI_COMM_WORLD);
}

static void check_reduce_scatter(struct work *work)
{
	check_sums(work, mpi_rank * work->size / sizeof(uint64_t),
		   "reduce_scatter");
}

static void run_allgather(struct work *work)
{
	MPI_Allgather(work->out, work->size, MPI_BYTE, work->in, work->size,
		      MPI_BYTE, MPI_COMM_WORLD);
}

static void check_allgather(struct work *work)
{
	int from;

	for (from = 0; from < mpi_ranks; from++)
		mpi_check(work->in + from * work->size, work->size,
			  key(work, from, 0), "allgather");
}

static void run_alltoall(struct work *work)
{
	MPI_Alltoall(work->out, work->size, MPI_BYTE, work->in, work->size,
		     MPI_BYTE, MPI_COMM_WORLD);
}

static void check_alltoall(struct work *work)
{
	int from;

	for (from = 0; from < mpi_ranks; from++)
		mpi_check(work->in + from * work->size, work->size,
			  key(work, from, mpi_rank), "alltoall");
}

static const struct operation OPERATIONS[] = {
	{ "sendrecv", begin_blocks, run_sendrecv, check_sendrecv },
	{ "bcast", begin_bcast, run_bcast, check_bcast },
	{ "allreduce", begin_allreduce, run_allreduce, check_allreduce },
	{ "allgather", begin_blocks, run_allgather, check_allgather },
	{ "alltoall", begin_blocks, run_alltoall, check_alltoall },
	{ "reduce_scatter", begin_reduce_scatter, run_reduce_scatter,
	  check_reduce_scatter },
};

#define N_OPERATIONS (sizeof(OPERATIONS) / sizeof(OPERATIONS[0]))

static void measure(const struct operation *operation,
		    const struct mpi_options *options, size_t size)
{
	unsigned int n = options->warmup + options->count;
	double *times = mpi_alloc(options->count * sizeof(*times));
	struct work work = {
		.options = options, .size = size,
		.out = mpi_alloc(size * mpi_ranks),
		.in = mpi_alloc(size * mpi_ranks),
	};
	double start, own, slowest;

	for (work.n = 0; work.n < n; work.n++) {
		operation->begin(&work);
		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		operation->run(&work);
		own = MPI_Wtime() - start;
		operation->check(&work);
		MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0,
			   MPI_COMM_WORLD);
		if (work.n >= options->warmup)
			times[work.n - options->warmup] = slowest * 1e6;
	}
	mpi_report(options, operation->name, size, times, options->count, size);
	free(work.out);
	free(work.in);
	free(times);
}

/* The operations of a list as "bcast,alltoall", or all of them, as bits. */
static unsigned int chosen(const char *list)
{
	unsigned int i, bits = 0;
	size_t n;

	if (!list)
		return (1u << N_OPERATIONS) - 1;
	for (;; list += n + 1) {
		n = strcspn(list, ",");
		for (i = 0; i < N_OPERATIONS; i++) {
			if (!strncmp(OPERATIONS[i].name, list, n) &&
			    !OPERATIONS[i].name[n])
				break;
		}
		if (i == N_OPERATIONS)
			mpi_usage("%.*s is no operation of this program (--help lists them)",
				  (int)n, list);
		bits |= 1u << i;
		if (!list[n])
			return bits;
	}
}

int main(int argc, char **argv)
{
	struct mpi_options options = {
		.sizes = { 8, 1024, 65536 }, .n_sizes = 3, .count = 20,
		.warmup = 2,
	};
	unsigned int i, j, bits;

	mpi_begin(argc, argv, HELP, &options);
	for (j = 0; j < options.n_sizes; j++) {
		if (!options.sizes[j] || options.sizes[j] % 8)
			mpi_usage("--sizes %zu: sums are of 8 bytes, use a multiple of 8",
				  options.sizes[j]);
	}
	bits = chosen(options.operation);
	for (i = 0; i < N_OPERATIONS; i++) {
		for (j = 0; bits & 1u << i && j < options.n_sizes; j++)
			measure(&OPERATIONS[i], &options, options.sizes[j]);
	}
	return mpi_end();
}
