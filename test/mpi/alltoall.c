// The all-to-all exchange at the bottom of two-phase I/O, by itself: alltoall [-s BYTES] [-n REPEATS]
//
// Every rank sends BYTES to every other rank, in each order of mpiio/schedule/send_order.h, with all sends at once (window
// 0) and with 1, 2, 4 and 8 outstanding; all receives are posted first. The combinations take turns. Prints the
// medians: MB/s of all ranks together, and the order's gain over rank order at the same window. What arrived is
// compared with what was sent.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kt.h"
#include "mpiio/schedule/send_order.h"

static const int windows[] = {0, 1, 2, 4, 8};
enum { WINDOWS = sizeof windows / sizeof *windows, ORDERS = KR_ORDER_ND_RANK_SHIFT + 1, MOST_REPEATS = 101 };

// All ranks are aggregators, so the order is one of all ranks.
static void order_of(enum kr_order order, uint32_t *targets)
{
	MPI_Comm node;
	struct kr_place mine = {.ring = KR_NO_RING}, *places = kt_alloc((size_t)kt_size * sizeof *places);
	struct kr_topology *topology;
	struct kr_aggregators *all;
	int lowest;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, kt_rank, MPI_INFO_NULL, &node);
	MPI_Allreduce(&kt_rank, &lowest, 1, MPI_INT, MPI_MIN, node);
	MPI_Comm_free(&node);
	mine.node = (uint32_t)lowest;
	MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
	KT_CHECK(!kr_topology_new((uint32_t)kt_size, places, NULL, &topology), "no topology");
	KT_CHECK(!kr_aggregators_new(topology, 0, "*:*", &all) && all->count == (uint32_t)kt_size, "not all ranks");
	KT_CHECK(!kr_order_sends(order, topology, all, (uint32_t)kt_rank, targets), "no order");
	for (int i = 0; i < kt_size; i++)
		targets[i] = all->rank[targets[i]];
	kr_aggregators_free(all);
	kr_topology_free(topology);
	free(places);
}

static double exchange(
	const uint32_t *targets, int window, const unsigned char *bytes, unsigned char *got, int size, int seed)
{
	MPI_Request *receives = kt_alloc((size_t)kt_size * sizeof *receives),
		    *sends = kt_alloc((size_t)kt_size * sizeof *sends);
	int under_way = 0, most = window ? window : kt_size, index;
	for (int rank = 0; rank < kt_size; rank++)
		sends[rank] = MPI_REQUEST_NULL;
	MPI_Barrier(MPI_COMM_WORLD);
	double start = kt_now();
	for (int rank = 0; rank < kt_size; rank++)
		MPI_Irecv(got + (size_t)rank * (size_t)size, rank == kt_rank ? 0 : size, MPI_BYTE,
			rank == kt_rank ? MPI_PROC_NULL : rank, seed, MPI_COMM_WORLD, &receives[rank]);
	for (int i = 0; i < kt_size; i++) {
		int place = i, to = (int)targets[i];
		if (to == kt_rank)
			continue;
		if (under_way == most) {
			MPI_Waitany(kt_size, sends, &index, MPI_STATUS_IGNORE);
			under_way--;
			place = index;
		}
		MPI_Isend(bytes, size, MPI_BYTE, to, seed, MPI_COMM_WORLD, &sends[place]);
		under_way++;
	}
	MPI_Waitall(kt_size, sends, MPI_STATUSES_IGNORE);
	MPI_Waitall(kt_size, receives, MPI_STATUSES_IGNORE);
	double mine = kt_now() - start, longest;
	MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	free(receives);
	free(sends);
	return longest;
}

static void check(const unsigned char *got, int size, int seed)
{
	unsigned char *expected = kt_alloc((size_t)size);
	for (int rank = 0; rank < kt_size; rank++) {
		kt_fill(expected, (size_t)size, (uint64_t)(rank * 1000 + seed));
		if (rank != kt_rank)
			kt_same_bytes(got + (size_t)rank * (size_t)size, expected, (size_t)size, "a message");
	}
	free(expected);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double seconds[ORDERS][WINDOWS][MOST_REPEATS];
	int size = 1 << 18, repeats = 5, seed = 0;
	kt_init(&argc, &argv);
	kt_doing = "alltoall";
	for (int option; (option = getopt(argc, argv, "s:n:")) != -1;) {
		switch (option) {
		case 's':
			size = atoi(optarg);
			break;
		case 'n':
			repeats = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	KT_CHECK(size > 0 && repeats > 0 && repeats <= MOST_REPEATS, "alltoall [-s BYTES] [-n REPEATS]");
	uint32_t *targets[ORDERS];
	unsigned char *bytes = kt_alloc((size_t)size), *got = kt_alloc((size_t)size * (size_t)kt_size);
	for (int order = 0; order < ORDERS; order++) {
		targets[order] = kt_alloc((size_t)kt_size * sizeof **targets);
		order_of((enum kr_order)order, targets[order]);
	}
	for (int repeat = -1; repeat < repeats; repeat++) { // the first one connects
		for (int window = 0; window < WINDOWS; window++) {
			for (int order = 0; order < ORDERS; order++) {
				seed++;
				kt_fill(bytes, (size_t)size, (uint64_t)(kt_rank * 1000 + seed));
				double took = exchange(targets[order], windows[window], bytes, got, size, seed);
				check(got, size, seed);
				if (repeat >= 0)
					seconds[order][window][repeat] = took;
			}
		}
	}
	for (int window = 0; !kt_rank && window < WINDOWS; window++) {
		double first = 0;
		printf("window %d:", windows[window]);
		for (int order = 0; order < ORDERS; order++) {
			qsort(seconds[order][window], (size_t)repeats, sizeof(double), ascending);
			double median = seconds[order][window][repeats / 2];
			first = order ? first : median;
			printf("  %s %.1f MB/s (%.2f)", kr_order_name((enum kr_order)order),
				(double)size * kt_size * (kt_size - 1) / median / 1e6, first / median);
		}
		printf("\n");
	}
	for (int order = 0; order < ORDERS; order++)
		free(targets[order]);
	free(bytes);
	free(got);
	kt_fini();
}
