/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The common part of the MPI programs: options, checked bytes, lines of results.
 *
 * Every program checks all data that it receives.  A wrong byte is an error of
 * the whole job: the program says where, and MPI_Abort() ends all ranks.
 */
#ifndef MPI_COMMON_H
#define MPI_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPI_SIZES_MAX 32

struct mpi_options {
	const char *operation;		/* the word in front of the options, or NULL */
	size_t sizes[MPI_SIZES_MAX];
	unsigned int n_sizes;
	unsigned int count;		/* repetitions of each size */
	unsigned int warmup;
	uint64_t seed;
	bool json;
};

extern int mpi_rank, mpi_ranks;

/*
 * Starts MPI and reads the options.  --help and a mistake end the job, the
 * latter with status 2 and one sentence of rank 0.
 */
void mpi_begin(int argc, char **argv, const char *help,
	       struct mpi_options *options);

/* Ends MPI; the program's exit status. */
int mpi_end(void);

/* Ends the job: status 1, and a sentence of this rank. */
__attribute__((noreturn, format(printf, 1, 2)))
void mpi_die(const char *format, ...);

/* Ends the job with status 2 and a sentence of rank 0: a mistake of the user. */
__attribute__((noreturn, format(printf, 1, 2)))
void mpi_usage(const char *format, ...);

/* Memory that is not zeroed, or the job ends. */
void *mpi_alloc(size_t size);

/* A pattern that depends on sender, message and position; and its check. */
void mpi_fill(void *buffer, size_t size, uint64_t key);
void mpi_check(const void *buffer, size_t size, uint64_t key, const char *where);

/* The next of a sequence of random numbers (splitmix64). */
uint64_t mpi_random(uint64_t *state);

/*
 * A line of results, printed by rank 0: times are in microseconds, and are
 * sorted.  Bandwidth is of `bytes` in the median of the times.
 */
void mpi_report(const struct mpi_options *options, const char *operation,
		size_t size, double *times, unsigned int n, double bytes);

#endif
