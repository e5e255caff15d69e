// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages that are longer than the receiver's buffer: MPI_ERR_TRUNCATE, and the
 * job goes on.  ofi_rxm of libfabric 1.17 crashes at some lengths (docs/mpi.rst).
 */
#include "common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define ROOM	10

static const char HELP[] =
"Usage: mpirun [-n RANKS] mpi-truncate [options]\n"
"\n"
"The first rank sends messages of each size to the last one, whose buffer has 10\n"
"bytes.  The receive must fail with MPI_ERR_TRUNCATE, and the next message must\n"
"be right.\n";

static void receive(size_t size, uint64_t key)
{
	int error, class = 0;
	char *room = mpi_alloc(size);

	memset(room, 0xee, size);
	error = MPI_Recv(room, ROOM, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	MPI_Error_class(error, &class);
	if (class != MPI_ERR_TRUNCATE)
		mpi_die("%zu bytes into %d: class %d, not MPI_ERR_TRUNCATE", size,
			ROOM, class);
	for (size_t i = ROOM; i < size; i++)
		if (room[i] != (char)0xee)
			mpi_die("%zu bytes into %d: byte %zu was written", size, ROOM, i);
	if (MPI_Recv(room, (int)size, MPI_BYTE, 0, 2, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE))
		mpi_die("the message behind one of %zu bytes failed", size);
	mpi_check(room, size, key, "the next message");
	free(room);
}

static void send(size_t size, uint64_t key)
{
	char *message = mpi_alloc(size);

	mpi_fill(message, size, key);
	for (int tag = 1; tag <= 2; tag++)
		if (MPI_Send(message, (int)size, MPI_BYTE, mpi_ranks - 1, tag,
			     MPI_COMM_WORLD))
			mpi_die("a send of %zu bytes failed", size);
	free(message);
}

int main(int argc, char **argv)
{
	struct mpi_options options = {
		.sizes = { 100, 16000, 16384, 20000, 70000, 131072, 200000 },
		.n_sizes = 7, .count = 3,
	};
	unsigned int i, turn;
	double *times;

	mpi_begin(argc, argv, HELP, &options);
	if (options.operation || mpi_ranks < 2)
		mpi_usage("use two ranks, and no word before the options (--help)");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	times = mpi_alloc(options.count * sizeof(*times));
	for (i = 0; i < options.n_sizes; i++) {
		size_t size = options.sizes[i];

		for (turn = 0; turn < options.count; turn++) {
			times[turn] = MPI_Wtime();
			if (mpi_rank == 0)
				send(size, options.seed + turn);
			else if (mpi_rank == mpi_ranks - 1)
				receive(size, options.seed + turn);
			MPI_Barrier(MPI_COMM_WORLD);
			times[turn] = (MPI_Wtime() - times[turn]) * 1e6;
		}
		mpi_report(&options, "truncate", size, times, options.count, size);
	}
	free(times);
	return mpi_end();
}
