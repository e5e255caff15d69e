// SPDX-License-Identifier: GPL-2.0-or-later
/* MPI's one-sided operations: put, get, accumulate, fetch-and-add; checked. */
#include "common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
"Usage: mpirun [-n RANKS] mpi-onesided [options]\n"
"\n"
"Each rank puts into its right neighbour's window and gets from it, within\n"
"fences and under a lock; all ranks accumulate into rank 0's window, and draw\n"
"tickets from it, each of which must be drawn once.\n";

static uint64_t key(const struct mpi_options *options, int from, unsigned int n)
{
	return options->seed * 1000003 + (uint64_t)from * 7919 + n;
}

static int right(void) { return (mpi_rank + 1) % mpi_ranks; }
static int left(void) { return (mpi_rank + mpi_ranks - 1) % mpi_ranks; }

/* put into the right one, so that the left one's bytes are here */
static double put(const struct mpi_options *options, MPI_Win window, char *own,
		  char *buffer, size_t size, unsigned int n)
{
	double start, time;

	mpi_fill(buffer, size, key(options, mpi_rank, n));
	MPI_Win_fence(0, window);
	start = MPI_Wtime();
	MPI_Put(buffer, size, MPI_BYTE, right(), 0, size, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	time = MPI_Wtime() - start;
	mpi_check(own, size, key(options, left(), n), "put");
	return time * 1e6;
}

/* After put(): the right one has this rank's bytes. */
static double get(const struct mpi_options *options, MPI_Win window,
		  char *buffer, size_t size, unsigned int n)
{
	double start, time;

	memset(buffer, 0xee, size);
	start = MPI_Wtime();
	MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, window);
	MPI_Get(buffer, size, MPI_BYTE, right(), 0, size, MPI_BYTE, window);
	MPI_Win_unlock(right(), window);
	time = MPI_Wtime() - start;
	mpi_check(buffer, size, key(options, mpi_rank, n), "get");
	MPI_Barrier(MPI_COMM_WORLD);
	return time * 1e6;
}

static void measure(const struct mpi_options *options, size_t size)
{
	unsigned int i, n = options->warmup + options->count;
	double *puts = mpi_alloc(n * sizeof(*puts));
	double *gets = mpi_alloc(n * sizeof(*gets));
	char *buffer = mpi_alloc(size), *own;
	MPI_Win window;

	MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
	for (i = 0; i < n; i++) {
		puts[i] = put(options, window, own, buffer, size, i);
		gets[i] = get(options, window, buffer, size, i);
	}
	mpi_report(options, "put", size, puts + options->warmup,
		   options->count, size);
	mpi_report(options, "get", size, gets + options->warmup,
		   options->count, size);
	MPI_Win_free(&window);
	free(buffer);
	free(puts);
	free(gets);
}

/* Sums of all ranks in rank 0's window. */
static void accumulate(const struct mpi_options *options)
{
	uint64_t *own, add[8], expected;
	unsigned int i, j;
	MPI_Win window;

	MPI_Win_allocate(sizeof(add), sizeof(*own), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &own, &window);
	memset(own, 0, sizeof(add));
	MPI_Win_fence(0, window);
	for (i = 0; i < options->count; i++) {
		for (j = 0; j < 8; j++)
			add[j] = (i + 1) * (uint64_t)(mpi_rank + 1) + j;
		MPI_Accumulate(add, 8, MPI_UINT64_T, 0, 0, 8, MPI_UINT64_T,
			       MPI_SUM, window);
		MPI_Win_fence(0, window);
	}
	for (j = 0; mpi_rank == 0 && j < 8; j++) {
		expected = (uint64_t)options->count * (options->count + 1) / 2 *
			   mpi_ranks * (mpi_ranks + 1) / 2 +
			   (uint64_t)j * options->count * mpi_ranks;
		if (own[j] != expected)
			mpi_die("accumulate: sum %u is %llu, not %llu", j,
				(unsigned long long)own[j],
				(unsigned long long)expected);
	}
	MPI_Win_free(&window);
}

/* Each ticket of rank 0's counter is drawn by exactly one rank. */
static void tickets(const struct mpi_options *options)
{
	size_t n = (size_t)options->count * mpi_ranks;
	uint64_t one = 1, ticket, *own;
	uint32_t *drawn = mpi_alloc(n * sizeof(*drawn));
	unsigned int i;
	MPI_Win window;

	memset(drawn, 0, n * sizeof(*drawn));
	MPI_Win_allocate(sizeof(*own), sizeof(*own), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &own, &window);
	*own = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (i = 0; i < options->count; i++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, 0, MPI_SUM,
				 window);
		MPI_Win_flush(0, window);
		if (ticket >= n)
			mpi_die("fetch-and-add: ticket %llu of %zu",
				(unsigned long long)ticket, n);
		drawn[ticket]++;
	}
	MPI_Win_unlock_all(window);
	MPI_Allreduce(MPI_IN_PLACE, drawn, n, MPI_UINT32_T, MPI_SUM,
		      MPI_COMM_WORLD);
	for (i = 0; i < n; i++) {
		if (drawn[i] != 1)
			mpi_die("fetch-and-add: ticket %u was drawn %u times",
				i, drawn[i]);
	}
	MPI_Win_free(&window);
	free(drawn);
}

int main(int argc, char **argv)
{
	struct mpi_options options = {
		.sizes = { 8, 65536 }, .n_sizes = 2, .count = 20, .warmup = 2,
	};
	unsigned int i;

	mpi_begin(argc, argv, HELP, &options);
	if (options.operation)
		mpi_usage("%s: this program has no such word (--help)",
			  options.operation);
	for (i = 0; i < options.n_sizes; i++)
		measure(&options, options.sizes[i]);
	accumulate(&options);
	tickets(&options);
	return mpi_end();
}
