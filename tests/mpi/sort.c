// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A bucket sort in the way of the NAS benchmark IS: random keys, an exchange by
 * MPI_Alltoallv(), a full verification.  It is not that benchmark: keys, sizes
 * and figures are its own.
 */
#include "common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BITS 20

static const char HELP[] =
"Usage: mpirun [-n RANKS] mpi-sort [options]\n"
"\n"
"Sorts keys that are random, --sizes bytes of them on each rank, and verifies\n"
"that the result is sorted over all ranks and has the same keys.\n";

struct parts {
	int *count, *at;
	int total;
};

static struct parts new_parts(void)
{
	return (struct parts) {
		.count = mpi_alloc(mpi_ranks * sizeof(int)),
		.at = mpi_alloc(mpi_ranks * sizeof(int)),
	};
}

static void free_parts(struct parts *parts)
{
	free(parts->count);
	free(parts->at);
}

static void add_up(struct parts *parts)
{
	int i;

	for (parts->total = 0, i = 0; i < mpi_ranks; i++) {
		parts->at[i] = parts->total;
		parts->total += parts->count[i];
	}
}

static int owner(uint32_t key)
{
	return (uint64_t)key * mpi_ranks >> KEY_BITS;
}

/* Orders the keys by their owners; the counts are those of each owner. */
static void to_buckets(const uint32_t *keys, uint32_t *ordered, size_t n,
		       struct parts *parts)
{
	int *next = mpi_alloc(mpi_ranks * sizeof(*next));
	size_t i;

	memset(parts->count, 0, mpi_ranks * sizeof(int));
	for (i = 0; i < n; i++)
		parts->count[owner(keys[i])]++;
	add_up(parts);
	memcpy(next, parts->at, mpi_ranks * sizeof(*next));
	for (i = 0; i < n; i++)
		ordered[next[owner(keys[i])]++] = keys[i];
	free(next);
}

static int by_key(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

/* The number of keys, their sum, and the sum of a hash of each. */
static void fingerprint(const uint32_t *keys, size_t n, uint64_t print[3])
{
	uint64_t state;
	size_t i;

	memset(print, 0, 3 * sizeof(*print));
	print[0] = n;
	for (i = 0; i < n; i++) {
		state = keys[i];
		print[1] += keys[i];
		print[2] += mpi_random(&state);
	}
	MPI_Allreduce(MPI_IN_PLACE, print, 3, MPI_UINT64_T, MPI_SUM,
		      MPI_COMM_WORLD);
}

static void verify(const uint32_t *keys, size_t n, const uint64_t before[3])
{
	uint64_t after[3];
	size_t i;

	for (i = 0; i < n; i++) {
		if (owner(keys[i]) != mpi_rank || (i && keys[i - 1] > keys[i]))
			mpi_die("key %zu of %zu is out of order", i, n);
	}
	fingerprint(keys, n, after);
	if (memcmp(before, after, sizeof(after)))
		mpi_die("the sorted keys are not those that were given");
}

static double sort_once(const struct mpi_options *options, size_t n,
			unsigned int turn)
{
	struct parts out = new_parts(), in = new_parts();
	uint32_t *keys = mpi_alloc(n * sizeof(*keys)), *sorted;
	uint32_t *ordered = mpi_alloc(n * sizeof(*ordered));
	uint64_t state = options->seed * 1000003 + turn * 4099ull + mpi_rank;
	uint64_t before[3];
	double start, time;
	size_t i;

	for (i = 0; i < n; i++)
		keys[i] = mpi_random(&state) >> (64 - KEY_BITS);
	fingerprint(keys, n, before);
	start = MPI_Wtime();
	to_buckets(keys, ordered, n, &out);
	MPI_Alltoall(out.count, 1, MPI_INT, in.count, 1, MPI_INT,
		     MPI_COMM_WORLD);
	add_up(&in);
	sorted = mpi_alloc((size_t)in.total * sizeof(*sorted));
	MPI_Alltoallv(ordered, out.count, out.at, MPI_UINT32_T, sorted,
		      in.count, in.at, MPI_UINT32_T, MPI_COMM_WORLD);
	qsort(sorted, in.total, sizeof(*sorted), by_key);
	MPI_Barrier(MPI_COMM_WORLD);
	time = MPI_Wtime() - start;
	verify(sorted, in.total, before);
	free_parts(&out);
	free_parts(&in);
	free(keys);
	free(ordered);
	free(sorted);
	return time * 1e6;
}

int main(int argc, char **argv)
{
	struct mpi_options options = {
		.sizes = { 1 << 20 }, .n_sizes = 1, .count = 3,
	};
	unsigned int i, turn;
	double *times;

	mpi_begin(argc, argv, HELP, &options);
	if (options.operation)
		mpi_usage("%s: this program has no such word (--help)",
			  options.operation);
	times = mpi_alloc(options.count * sizeof(*times));
	for (i = 0; i < options.n_sizes; i++) {
		for (turn = 0; turn < options.warmup; turn++)
			sort_once(&options, options.sizes[i] / 4, turn);
		for (turn = 0; turn < options.count; turn++)
			times[turn] = sort_once(&options, options.sizes[i] / 4,
						options.warmup + turn);
		mpi_report(&options, "sort", options.sizes[i], times,
			   options.count, options.sizes[i]);
	}
	free(times);
	return mpi_end();
}
