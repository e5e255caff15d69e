// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One way between rank 0 and the last rank: half of a round trip, and the rate
 * of a window of messages.  The ranks between them wait.
 */
#include "common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 16

static const char HELP[] =
"Usage: mpirun -n RANKS mpi-pingpong [latency|bandwidth] [options]\n"
"\n"
"Rank 0 and the last rank exchange messages; every byte is checked.  latency\n"
"(default): half of a round trip.  bandwidth: the last rank acknowledges each\n"
"window of 16 messages.\n";

static uint64_t key(const struct mpi_options *options, int from, unsigned int n)
{
	return options->seed * 1000003 + (uint64_t)from * 7919 + n;
}

static double round_trip(const struct mpi_options *options, char *buffer,
			 size_t size, unsigned int n)
{
	int peer = mpi_rank ? 0 : mpi_ranks - 1;
	double start, time;
	char ready;

	mpi_fill(buffer, size, key(options, mpi_rank, n));
	if (mpi_rank == 0) {
		/* The answer is ready before the question leaves. */
		MPI_Recv(&ready, 0, MPI_BYTE, peer, 5, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		start = MPI_Wtime();
		MPI_Send(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		MPI_Recv(buffer, size, MPI_BYTE, peer, 2, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		time = MPI_Wtime() - start;
		mpi_check(buffer, size, key(options, peer, n), "ping-pong");
		return time * 1e6 / 2;
	}
	MPI_Send(&ready, 0, MPI_BYTE, peer, 5, MPI_COMM_WORLD);
	MPI_Recv(buffer + size, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	MPI_Send(buffer, size, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
	mpi_check(buffer + size, size, key(options, peer, n), "ping-pong");
	return 0;
}

static double window(const struct mpi_options *options, char *buffer,
		     size_t size, unsigned int n)
{
	int peer = mpi_rank ? 0 : mpi_ranks - 1;
	MPI_Request requests[WINDOW];
	double start;
	char word;
	int i;

	for (i = 0; i < WINDOW; i++) {
		if (mpi_rank == 0)
			mpi_fill(buffer + i * size, size,
				 key(options, i, n));
		else
			MPI_Irecv(buffer + i * size, size, MPI_BYTE, peer, 3,
				  MPI_COMM_WORLD, &requests[i]);
	}
	if (mpi_rank) {
		/* Tells that all receives are posted. */
		MPI_Send(&word, 0, MPI_BYTE, peer, 5, MPI_COMM_WORLD);
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		MPI_Send(&word, 0, MPI_BYTE, peer, 4, MPI_COMM_WORLD);
		for (i = 0; i < WINDOW; i++)
			mpi_check(buffer + i * size, size, key(options, i, n),
				  "window");
		return 0;
	}
	MPI_Recv(&word, 0, MPI_BYTE, peer, 5, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	start = MPI_Wtime();
	for (i = 0; i < WINDOW; i++)
		MPI_Isend(buffer + i * size, size, MPI_BYTE, peer, 3,
			  MPI_COMM_WORLD, &requests[i]);
	MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
	MPI_Recv(&word, 0, MPI_BYTE, peer, 4, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	return (MPI_Wtime() - start) * 1e6;
}

static void measure(const struct mpi_options *options, size_t size, bool rate)
{
	double *times = mpi_alloc(options->count * sizeof(*times));
	/* A question and its answer, or a window. */
	char *buffer = mpi_alloc(size * (rate ? WINDOW : 2));
	unsigned int i, n = options->warmup + options->count;
	double time;

	for (i = 0; i < n; i++) {
		time = (rate ? window : round_trip)(options, buffer, size, i);
		if (i >= options->warmup)
			times[i - options->warmup] = time;
	}
	mpi_report(options, rate ? "bandwidth" : "latency", size, times,
		   options->count, rate ? (double)size * WINDOW : (double)size);
	free(buffer);
	free(times);
}

int main(int argc, char **argv)
{
	struct mpi_options options = {
		.sizes = { 8, 1 << 20 }, .n_sizes = 2, .count = 50,
		.warmup = 5,
	};
	bool rate = false;
	unsigned int i;

	mpi_begin(argc, argv, HELP, &options);
	if (options.operation) {
		rate = !strcmp(options.operation, "bandwidth");
		if (!rate && strcmp(options.operation, "latency"))
			mpi_usage("%s: use latency or bandwidth",
				  options.operation);
	}
	if (mpi_ranks < 2)
		mpi_usage("a ping-pong needs 2 ranks: use mpirun -n 2");
	for (i = 0; i < options.n_sizes; i++) {
		if (mpi_rank == 0 || mpi_rank == mpi_ranks - 1)
			measure(&options, options.sizes[i], rate);
	}
	return mpi_end();
}
