// What kairan's layer promises beyond the MPI libraries: promises SCENARIO|all DIR, one of
//
// - info: MPI_File_get_info tells the layer's own hints: the layer is there (without it this fails); with
//   PROMISES_STRIPE also stripes of that size
// - handover: two collective writes of complementary regions, no sync between; after one sync all others read them
// - overwrites: a collective write, and the first of a rank alone, goes over what other ranks wrote before a barrier
// - intercomm: an intercommunicator is refused as the standard says
// - highest: ranks that overlap in one collective write: the highest rank's bytes stay
// - nonblocking: collectives that do not block, several under way, computation and messages between
//   (MPI_THREAD_MULTIPLE)
// - nearby PID: a collective read straight after a collective write needs nothing of the server, process PID, which is
//   stopped
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kt.h"

static const char *dir;

static MPI_File open_new(const char *name, MPI_Info info)
{
	MPI_File file;
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
	return file;
}

static void sync_barrier_sync(MPI_File file)
{
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
}

static void info(void)
{
	MPI_Info wanted, used;
	char value[64] = "";
	int flag;
	MPI_Info_create(&wanted);
	MPI_Info_set(wanted, "kairan_order", "pairwise");
	MPI_File file = open_new("info", wanted);
	KT_OK(MPI_File_get_info(file, &used));
	MPI_Info_get(used, "kairan_order", sizeof value - 1, value, &flag);
	KT_CHECK(flag && !strcmp(value, "pairwise"), "kairan_order is '%s'", value);
	MPI_Info_get(used, "cb_nodes", sizeof value - 1, value, &flag);
	KT_CHECK(flag && atoi(value) > 0, "cb_nodes is '%s'", value);
	if (getenv("PROMISES_STRIPE")) {
		MPI_Info_get(used, "striping_unit", sizeof value - 1, value, &flag);
		KT_CHECK(flag && !strcmp(value, getenv("PROMISES_STRIPE")), "striping_unit is '%s'", value);
	}
	MPI_Info_free(&used);
	MPI_Info_free(&wanted);
	KT_OK(MPI_File_close(&file));
}

static void handover(void)
{
	enum { BLOCK = 3744, BLOCKS = 300 };
	MPI_File file = open_new("handover", MPI_INFO_NULL);
	MPI_Datatype one, type;
	size_t length = (size_t)BLOCK * BLOCKS;
	unsigned char *bytes = kt_alloc(length), *all = kt_alloc(2 * length * (size_t)kt_size);
	MPI_Type_contiguous(BLOCK, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, (MPI_Aint)BLOCK * 2 * kt_size, &type);
	MPI_Type_commit(&type);
	for (int half = 0; half < 2; half++) {
		kt_fill(bytes, length, (uint64_t)(2 * kt_rank + half));
		KT_OK(MPI_File_set_view(
			file, (MPI_Offset)BLOCK * (2 * kt_rank + half), MPI_BYTE, type, "native", MPI_INFO_NULL));
		KT_OK(MPI_File_write_at_all(file, 0, bytes, (int)length, MPI_BYTE, MPI_STATUS_IGNORE));
	}
	sync_barrier_sync(file);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	// By every rank alone, through the file handle; then together.
	for (int together = 0; together < 2; together++) {
		memset(all, 0, 2 * length * (size_t)kt_size);
		KT_OK(together ? MPI_File_read_at_all(file, 0, all, (int)(2 * length * (size_t)kt_size), MPI_BYTE,
					 MPI_STATUS_IGNORE) :
				 MPI_File_read_at(file, 0, all, (int)(2 * length * (size_t)kt_size), MPI_BYTE,
					 MPI_STATUS_IGNORE));
		for (int part = 0; part < 2 * kt_size; part++) {
			kt_fill(bytes, length, (uint64_t)part);
			for (int i = 0; i < BLOCKS; i++)
				kt_same_bytes(all + ((size_t)i * 2 * (size_t)kt_size + (size_t)part) * BLOCK,
					bytes + (size_t)i * BLOCK, BLOCK, "a block of another rank");
		}
	}
	MPI_Type_free(&one);
	MPI_Type_free(&type);
	free(bytes);
	free(all);
	KT_OK(MPI_File_close(&file));
}

enum { PAGE = 4096, PAGES = 2 }; // of each rank

// What rank 0 writes alone (0), or in a collective call (1), or (2) each rank where the next one writes then.
static void write_first(MPI_File file, int how, unsigned char *bytes)
{
	size_t length = (size_t)PAGE * PAGES;
	memset(bytes, 0, length * (size_t)kt_size);
	if (how == 0 && !kt_rank)
		KT_OK(MPI_File_write_at(file, 0, bytes, (int)length * kt_size, MPI_BYTE, MPI_STATUS_IGNORE));
	if (how == 1)
		KT_OK(MPI_File_write_at_all(
			file, 0, bytes, kt_rank ? 0 : (int)length * kt_size, MPI_BYTE, MPI_STATUS_IGNORE));
	if (how == 2)
		KT_OK(MPI_File_write_at_all(file, (MPI_Offset)length * (kt_rank + 1), bytes,
			kt_rank < kt_size - 1 ? (int)length : 0, MPI_BYTE, MPI_STATUS_IGNORE));
}

// Each rank's pages: one behind the other, each between those of the other ranks, or (ALONE) not collectively.
static void write_over(MPI_File file, bool between, bool alone, unsigned char *bytes)
{
	MPI_Datatype type = MPI_BYTE, page;
	memset(bytes, 'a' + kt_rank, (size_t)PAGE * PAGES);
	if (between) {
		MPI_Type_contiguous(PAGE, MPI_BYTE, &page);
		MPI_Type_create_resized(page, 0, (MPI_Aint)PAGE * kt_size, &type);
		MPI_Type_commit(&type);
		MPI_Type_free(&page);
	}
	KT_OK(MPI_File_set_view(
		file, (MPI_Offset)PAGE * (between ? 1 : PAGES) * kt_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	KT_OK(alone ? MPI_File_write_at(file, 0, bytes, PAGE * PAGES, MPI_BYTE, MPI_STATUS_IGNORE) :
		      MPI_File_write_at_all(file, 0, bytes, PAGE * PAGES, MPI_BYTE, MPI_STATUS_IGNORE));
	if (between)
		MPI_Type_free(&type);
}

static void overwrites(void)
{
	unsigned char *bytes = kt_alloc((size_t)PAGE * PAGES * (size_t)kt_size);
	MPI_Info hints[2] = {MPI_INFO_NULL};
	MPI_Info_create(&hints[1]);
	MPI_Info_set(hints[1], "romio_cb_write", "disable");
	for (int i = 0; i < 2 * 3 * 3; i++) {
		bool between = i / 2 % 3 == 1, alone = i / 2 % 3 == 2;
		MPI_File file = open_new("overwrites", hints[i % 2]);
		KT_OK(MPI_File_set_size(file, 0));
		write_first(file, i / 6, bytes);
		MPI_Barrier(MPI_COMM_WORLD);
		write_over(file, between, alone, bytes);
		KT_OK(MPI_File_close(&file));
		file = open_new("overwrites", MPI_INFO_NULL);
		KT_OK(MPI_File_read_at(file, 0, bytes, PAGE * PAGES * kt_size, MPI_BYTE, MPI_STATUS_IGNORE));
		for (int page = 0; page < PAGES * kt_size; page++) {
			int rank = between ? page % kt_size : page / PAGES;
			KT_CHECK(bytes[page * PAGE] == 'a' + rank,
				"round %d: page %d has not what rank %d wrote last, but %d", i, page, rank,
				bytes[page * PAGE]);
		}
		KT_OK(MPI_File_close(&file));
	}
	MPI_Info_free(&hints[1]);
	free(bytes);
}

static void intercomm(void)
{
	MPI_Comm half, inter;
	MPI_File file = MPI_FILE_NULL;
	KT_CHECK(kt_size > 1, "needs two ranks");
	MPI_Comm_split(MPI_COMM_WORLD, kt_rank % 2, kt_rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - kt_rank % 2, 7, &inter);
	MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int code =
		MPI_File_open(inter, kt_path(dir, "intercomm"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
	KT_CHECK(kt_class(code) == MPI_ERR_COMM, "an intercommunicator: %s", kt_class_name(code));
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void highest(void)
{
	enum { LENGTH = 100000 };
	MPI_Info hints;
	MPI_Info_create(&hints);
	MPI_Info_set(hints, "romio_cb_write", "enable");
	MPI_File file = open_new("highest", hints);
	MPI_Info_free(&hints);
	unsigned char *bytes = kt_alloc(LENGTH), *got = kt_alloc(LENGTH);
	// Rank r writes from r * 100: at a byte the highest rank that has it.
	memset(bytes, kt_rank + 1, LENGTH);
	KT_OK(MPI_File_write_at_all(
		file, kt_rank * 100, bytes, LENGTH - kt_rank * 100 * 2, MPI_BYTE, MPI_STATUS_IGNORE));
	sync_barrier_sync(file);
	KT_OK(MPI_File_read_at_all(file, 0, got, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	for (int i = 0; i < LENGTH; i++) {
		int owner = 0;
		for (int rank = 0; rank < kt_size; rank++)
			if (i >= rank * 100 && i < LENGTH - rank * 100)
				owner = rank;
		KT_CHECK(got[i] == owner + 1, "byte %d is rank %d's instead of rank %d's", i, got[i] - 1, owner);
	}
	free(bytes);
	free(got);
	KT_OK(MPI_File_close(&file));
}

static void nonblocking(void)
{
	enum { PARTS = 6, LENGTH = 50000 };
	MPI_File file = open_new("nonblocking", MPI_INFO_NULL);
	MPI_Request requests[PARTS];
	MPI_Status statuses[PARTS];
	unsigned char *bytes = kt_alloc(PARTS * LENGTH), *got = kt_alloc(PARTS * LENGTH);
	int count, sum;
	MPI_Datatype one, type;
	MPI_Type_contiguous(1000, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, 1000 * kt_size, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, 1000 * kt_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	kt_fill(bytes, PARTS * LENGTH, (uint64_t)kt_rank + 50);
	for (int i = 0; i < PARTS; i++)
		KT_OK(i % 2 ? MPI_File_iwrite_all(file, bytes + i * LENGTH, LENGTH, MPI_BYTE, &requests[i]) :
			      (MPI_File_seek(file, (MPI_Offset)(i + 1) * LENGTH, MPI_SEEK_SET),
				      MPI_File_iwrite_at_all(file, (MPI_Offset)i * LENGTH, bytes + i * LENGTH, LENGTH,
					      MPI_BYTE, &requests[i])));
	MPI_Type_free(&type); // the file has its own
	MPI_Allreduce(&kt_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	KT_OK(MPI_Waitall(PARTS, requests, statuses));
	for (int i = 0; i < PARTS; i++) {
		MPI_Get_count(&statuses[i], MPI_BYTE, &count);
		KT_CHECK(count == LENGTH, "part %d: %d bytes", i, count);
	}
	// In another order than they are waited for; a rank of its own also reads alone meanwhile.
	for (int i = 0; i < PARTS; i++)
		KT_OK(MPI_File_iread_at_all(
			file, (MPI_Offset)i * LENGTH, got + i * LENGTH, LENGTH, MPI_BYTE, &requests[i]));
	for (int i = PARTS - 1; i >= 0; i--)
		KT_OK(MPI_Wait(&requests[i], &statuses[i]));
	kt_same_bytes(got, bytes, PARTS * LENGTH, "one's own bytes");
	MPI_Type_free(&one);
	free(bytes);
	free(got);
	KT_OK(MPI_File_close(&file));
}

static pid_t server;
static volatile sig_atomic_t waited;

static void let_go_on(int signal)
{
	(void)signal;
	waited = 1;
	kill(server, SIGCONT);
}

static void nearby(void)
{
	enum { LENGTH = 300 * 1000 };
	MPI_Info hints;
	MPI_Datatype one, type;
	unsigned char *bytes = kt_alloc(LENGTH), *got = kt_alloc(LENGTH);
	MPI_Info_create(&hints);
	MPI_Info_set(hints, "romio_cb_write", "enable");
	MPI_Info_set(hints, "romio_cb_read", "enable");
	MPI_Info_set(hints, "striping_unit", "131072");
	MPI_File file = open_new("nearby", hints);
	MPI_Info_free(&hints);
	MPI_Type_contiguous(1000, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, 1000 * kt_size, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, 1000 * kt_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank + 900);
	KT_OK(MPI_File_write_at_all(file, 0, bytes, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	if (!kt_rank) {
		signal(SIGALRM, let_go_on);
		KT_CHECK(!kill(server, SIGSTOP), "no server %d", (int)server);
		alarm(60);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_read_at_all(file, 0, got, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	MPI_Barrier(MPI_COMM_WORLD);
	if (!kt_rank) {
		alarm(0);
		kill(server, SIGCONT);
	}
	KT_CHECK(!waited, "what the nodes have was read from the server");
	kt_same_bytes(got, bytes, LENGTH, "read from the nodes that wrote it");
	MPI_Type_free(&one);
	MPI_Type_free(&type);
	free(bytes);
	free(got);
	KT_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenarios[] = {
		{"info", info},
		{"handover", handover},
		{"overwrites", overwrites},
		{"intercomm", intercomm},
		{"highest", highest},
		{"nonblocking", nonblocking},
	};
	int provided, ran = 0;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &kt_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &kt_size);
	KT_CHECK(argc >= 3, "promises SCENARIO DIR [PID]");
	kt_doing = argv[1];
	dir = argv[2];
	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
		if (!strcmp(argv[1], scenarios[i].name) || !strcmp(argv[1], "all")) {
			kt_doing = scenarios[i].name;
			scenarios[i].run();
			MPI_Barrier(MPI_COMM_WORLD);
			ran++;
		}
	}
	if (!strcmp(argv[1], "nearby") && argc == 4) {
		server = (pid_t)atoi(argv[3]);
		nearby();
		ran++;
	}
	KT_CHECK(ran, "no scenario %s", argv[1]);
	if (!kt_rank)
		printf("ok promises %s\n", argv[1]);
	kt_fini();
}
