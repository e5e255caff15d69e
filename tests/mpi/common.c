// SPDX-License-Identifier: GPL-2.0-or-later
/* See common.h. */
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (64u << 20)
#define COUNT_LIMIT 1000000

int mpi_rank, mpi_ranks;

static _Noreturn void end_job(int status, const char *format, va_list list)
{
	fprintf(stderr, "error: ");
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, status);
	exit(status);
}

void mpi_die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "rank %d: ", mpi_rank);
	end_job(1, format, list);
}

/*
 * The other ranks wait to be ended; they end by themselves if rank 0's sentence
 * has ended the job without them.
 */
void mpi_usage(const char *format, ...)
{
	va_list list;

	if (mpi_rank == 0) {
		va_start(list, format);
		end_job(2, format, list);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	exit(2);
}

static uint64_t number(const char *text, const char *option, uint64_t limit)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || value > limit)
		mpi_usage("%s %s: use a number from 0 to %llu", option, text,
			  (unsigned long long)limit);
	return value;
}

static void parse_sizes(struct mpi_options *options, char *text)
{
	char *place, *word;

	options->n_sizes = 0;
	for (word = strtok_r(text, ",", &place); word;
	     word = strtok_r(NULL, ",", &place)) {
		if (options->n_sizes == MPI_SIZES_MAX)
			mpi_usage("--sizes: at most %d sizes", MPI_SIZES_MAX);
		options->sizes[options->n_sizes++] =
			number(word, "--sizes", SIZE_LIMIT);
	}
	if (!options->n_sizes)
		mpi_usage("--sizes: use one size or more, as 8,1024");
}

static _Noreturn void show_help(const char *help)
{
	if (mpi_rank == 0)
		printf("%s\n"
		       "  --sizes A,B,...  bytes of a message\n"
		       "  --count N        repetitions of each size\n"
		       "  --warmup N       repetitions before those, not measured\n"
		       "  --seed N         of the data (default: 1)\n"
		       "  --json           one JSON object a line\n", help);
	MPI_Finalize();
	exit(0);
}

static void parse(int argc, char **argv, const char *help,
		  struct mpi_options *options)
{
	static const struct option known[] = {
		{ "sizes", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'c' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "seed", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 's':
			parse_sizes(options, optarg);
			break;
		case 'c':
			options->count = number(optarg, "--count", COUNT_LIMIT);
			break;
		case 'w':
			options->warmup = number(optarg, "--warmup",
						 COUNT_LIMIT);
			break;
		case 'r':
			options->seed = number(optarg, "--seed", UINT64_MAX);
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			show_help(help);
		default:
			mpi_usage("%s: no such option, or it lacks its value (--help lists them)",
				  argv[optind - 1]);
		}
	}
	if (optind < argc)
		options->operation = argv[optind++];
	if (optind < argc)
		mpi_usage("%s is one word too many (--help lists the options)",
			  argv[optind]);
	if (!options->count)
		mpi_usage("--count 0 measures nothing: use 1 or more");
}

void mpi_begin(int argc, char **argv, const char *help,
	       struct mpi_options *options)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &mpi_ranks);
	if (!options->seed)
		options->seed = 1;
	parse(argc, argv, help, options);
}

int mpi_end(void)
{
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}

void *mpi_alloc(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		mpi_die("no memory for %zu bytes", size);
	return memory;
}

uint64_t mpi_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

void mpi_fill(void *buffer, size_t size, uint64_t key)
{
	uint8_t *byte = buffer;
	uint64_t word;
	size_t at, part;

	for (at = 0; at < size; at += part) {
		part = size - at < sizeof(word) ? size - at : sizeof(word);
		word = mpi_random(&key);
		memcpy(byte + at, &word, part);
	}
}

void mpi_check(const void *buffer, size_t size, uint64_t key, const char *where)
{
	const uint8_t *byte = buffer;
	uint64_t word;
	size_t at, part;

	for (at = 0; at < size; at += part) {
		part = size - at < sizeof(word) ? size - at : sizeof(word);
		word = mpi_random(&key);
		if (memcmp(byte + at, &word, part))
			mpi_die("%s: wrong bytes at %zu of %zu", where, at,
				size);
	}
}

static int by_value(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

void mpi_report(const struct mpi_options *options, const char *operation,
		size_t size, double *times, unsigned int n, double bytes)
{
	double median, p99, rate;

	if (mpi_rank)
		return;
	qsort(times, n, sizeof(*times), by_value);
	median = times[n / 2];
	p99 = times[(size_t)n * 99 / 100];
	rate = median > 0 ? bytes / median : 0;
	if (options->json)
		printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"n\": %u, \"median\": %.2f, \"p99\": %.2f, \"mb_s\": %.2f}\n",
		       operation, size, mpi_ranks, n, median, p99, rate);
	else
		printf("%-12s %9zu bytes %3d ranks  median %10.2f us  p99 %10.2f us  %9.2f MB/s\n",
		       operation, size, mpi_ranks, median, p99, rate);
	fflush(stdout);
}
