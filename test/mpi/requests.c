// What the layer asks of MPI: requests of non-blocking calls, threads, messages. requests DIR threads|funneled|single
//
//   repeats   views that differ in where they begin are told once, by one rank for all; how many rounds a call has
//   makes no difference to how often
//             all ranks meet (not with threads, whose calls are not ours alone)
//   late       an aggregator fails in the middle of one: MPI_Wait, MPI_Test and MPI_Waitall of every rank tell it, and
//   the next ones are right freed      MPI_Request_free before the end, MPI_Cancel (which comes too late), MPI_Test in
//   loops, MPI_Waitsome closed     MPI_File_close waits for them looked_at  MPI_File_get_info while one of them changes
//   the hints
//
// threads: the program has MPI_THREAD_MULTIPLE and they run beside it; funneled, single: it has not, nothing of the
// layer may call MPI from another thread.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kt.h"
#include "spy.h"

enum { REGION = 1000, REGIONS = 1500, LENGTH = REGION * REGIONS };

static const char *dir;
static bool threads;

static MPI_File open_new(const char *name)
{
	MPI_File file;
	MPI_Info hints;
	MPI_Info_create(&hints);
	MPI_Info_set(hints, "romio_cb_write", "enable");
	MPI_Info_set(hints, "romio_cb_read", "enable");
	MPI_Info_set(hints, "cb_config_list", "*:*");
	MPI_Info_set(hints, "striping_unit", "65536");
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
	MPI_Info_free(&hints);
	KT_OK(MPI_File_set_size(file, 0));
	KT_CHECK(kt_is_layers(file), "the layer does not handle the file");
	return file;
}

// Regions of all ranks in turn, from `begin` on.
static void set_view_at(MPI_File file, MPI_Offset begin, MPI_Info info)
{
	MPI_Datatype one, type;
	MPI_Type_contiguous(REGION, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, (MPI_Aint)REGION * kt_size, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, begin + (MPI_Offset)REGION * kt_rank, MPI_BYTE, type, "native", info));
	MPI_Type_free(&one);
	MPI_Type_free(&type);
}

static void set_view(MPI_File file, MPI_Info info)
{
	set_view_at(file, 0, info);
}

static void check_written(MPI_File file, MPI_Offset at, const unsigned char *bytes, int length, const char *what)
{
	unsigned char *got = kt_alloc((size_t)length);
	int count;
	MPI_Status status;
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
	KT_OK(MPI_File_read_at_all(file, at, got, length, MPI_BYTE, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(count == length, "%s: %d bytes instead of %d", what, count, length);
	kt_same_bytes(got, bytes, (size_t)length, what);
	free(got);
}

// ---- late ----

// Rank 1 may not write beyond 1 MiB: its node's disk, as it were.
static void break_rank_1(bool broken)
{
	static struct rlimit before;
	struct rlimit limit;
	if (kt_rank != 1)
		return;
	if (broken)
		KT_CHECK(!getrlimit(RLIMIT_FSIZE, &before), "no limit");
	limit = before;
	if (broken)
		limit.rlim_cur = 1 << 20;
	KT_CHECK(!setrlimit(RLIMIT_FSIZE, &limit), "no limit");
}

// MPICH makes MPI_ERR_OTHER of what a request's query function says, in MPI_Wait.
static void same_everywhere(int class)
{
	int least, most;
	bool right = class == MPI_ERR_IO;
#ifdef MPICH
	right |= class == MPI_ERR_OTHER;
#endif
	MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	KT_CHECK(least == most && right, "classes from %d to %d, here %d", least, most, class);
}

static void late(void)
{
	MPI_File file = open_new("late");
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int flag = 0, code;
	unsigned char *bytes = kt_alloc(LENGTH);
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank);
	set_view(file, MPI_INFO_NULL);
	break_rank_1(true);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); // requests are nobody's else
	KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, LENGTH, MPI_BYTE, &requests[0]));
	code = MPI_Wait(&requests[0], &statuses[0]);
	same_everywhere(kt_class(code));
	KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, LENGTH, MPI_BYTE, &requests[0]));
	do
		code = MPI_Test(&requests[0], &flag, &statuses[0]);
	while (!flag && code == MPI_SUCCESS);
	same_everywhere(kt_class(code));
	// One that fails, one that does not: each status tells its own.
	KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, LENGTH, MPI_BYTE, &requests[0]));
	KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, REGION, MPI_BYTE, &requests[1]));
	code = MPI_Waitall(2, requests, statuses);
	KT_CHECK(kt_class(code) == MPI_ERR_IN_STATUS, "Waitall: %s", kt_class_name(code));
	same_everywhere(kt_class(statuses[0].MPI_ERROR));
	if (kt_class(statuses[1].MPI_ERROR) == MPI_ERR_PENDING) // it need not have been waited for
		statuses[1].MPI_ERROR = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	KT_CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS, "the one that went well: %s",
		kt_class_name(statuses[1].MPI_ERROR));
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	break_rank_1(false);
	KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, LENGTH, MPI_BYTE, &requests[0]));
	KT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
	check_written(file, 0, bytes, LENGTH, "after the failures");
	free(bytes);
	KT_OK(MPI_File_close(&file));
}

// ---- freed ----

static void freed(void)
{
	enum { PARTS = 6, PART = LENGTH / PARTS };
	MPI_File file = open_new("freed");
	MPI_Request requests[PARTS];
	MPI_Status status, statuses[PARTS];
	int flag, done = 0, count, some[PARTS];
	unsigned char *bytes = kt_alloc(LENGTH);
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank + 77);
	set_view(file, MPI_INFO_NULL);
	for (int i = 0; i < PARTS; i++)
		KT_OK(MPI_File_iwrite_all(file, bytes + i * PART, PART, MPI_BYTE, &requests[i]));
	KT_OK(MPI_Request_free(&requests[0]));
	KT_OK(MPI_Cancel(&requests[1]));
	KT_OK(MPI_Wait(&requests[1], &status));
	MPI_Test_cancelled(&status, &flag);
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(!flag && count == PART, "cancelled: %d, %d bytes", flag, count);
	for (flag = 0; !flag;)
		KT_OK(MPI_Test(&requests[2], &flag, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(count == PART && requests[2] == MPI_REQUEST_NULL, "tested: %d bytes", count);
	while (done < PARTS - 3) {
		KT_OK(MPI_Waitsome(PARTS, requests, &count, some, statuses));
		KT_CHECK(count > 0, "%d of some", count);
		for (int i = 0; i < count; i++) {
			int length;
			MPI_Get_count(&statuses[i], MPI_BYTE, &length);
			KT_CHECK(length == PART, "part %d: %d bytes", some[i], length);
		}
		done += count;
	}
	check_written(file, 0, bytes, LENGTH, "with requests freed and cancelled");
	// Alone, too.
	KT_OK(MPI_File_iwrite_at(file, 0, bytes, PART, MPI_BYTE, &requests[0]));
	KT_OK(MPI_Request_free(&requests[0]));
	KT_OK(MPI_File_iread_at(file, PART, bytes + PART, PART, MPI_BYTE, &requests[1]));
	KT_OK(MPI_Cancel(&requests[1]));
	KT_OK(MPI_Wait(&requests[1], &status));
	check_written(file, 0, bytes, LENGTH, "after a read");
	free(bytes);
	KT_OK(MPI_File_close(&file));
}

// ---- closed ----

static void closed(void)
{
	MPI_File file = open_new("closed");
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int count;
	unsigned char *bytes = kt_alloc(LENGTH);
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank + 99);
	set_view(file, MPI_INFO_NULL);
	KT_OK(MPI_File_iwrite_all(file, bytes, LENGTH / 2, MPI_BYTE, &requests[0]));
	KT_OK(MPI_File_iwrite_all(file, bytes + LENGTH / 2, LENGTH / 2, MPI_BYTE, &requests[1]));
	KT_OK(MPI_File_close(&file));
	KT_OK(MPI_Waitall(2, requests, statuses));
	for (int i = 0; i < 2; i++) {
		MPI_Get_count(&statuses[i], MPI_BYTE, &count);
		KT_CHECK(count == LENGTH / 2, "%d bytes", count);
	}
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, "closed"), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	set_view(file, MPI_INFO_NULL);
	check_written(file, 0, bytes, LENGTH, "after a close that had to wait");
	free(bytes);
	KT_OK(MPI_File_close(&file));
}

// ---- looked_at ----

static void looked_at(void)
{
	enum { TURNS = 60 };
	MPI_File file = open_new("looked_at");
	unsigned char *bytes = kt_alloc(REGION);
	for (int turn = 0; turn < TURNS; turn++) {
		MPI_Info info, used;
		MPI_Request request;
		char value[64];
		int flag = 0, found, nodes;
		MPI_Info_create(&info);
		MPI_Info_set(info, "cb_nodes", turn % 2 ? "1" : "2");
		set_view(file, info);
		MPI_Info_free(&info);
		KT_OK(MPI_File_iwrite_at_all(file, 0, bytes, REGION, MPI_BYTE, &request));
		while (!flag) {
			KT_OK(MPI_File_get_info(file, &used));
			MPI_Info_get(used, "cb_nodes", sizeof value - 1, value, &found);
			nodes = found ? atoi(value) : 0;
			MPI_Info_get(used, "kairan_slots", sizeof value - 1, value, &found);
			KT_CHECK(found && nodes >= 1, "turn %d: cb_nodes %d, kairan_slots is%s there", turn, nodes,
				found ? "" : " not");
			MPI_Info_free(&used);
			KT_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
		}
	}
	free(bytes);
	KT_OK(MPI_File_close(&file));
}

// ---- repeats ----

static int meetings(MPI_File file, const unsigned char *bytes, int length)
{
	int before = spy_collective_calls();
	KT_OK(MPI_File_write_at_all(file, 0, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
	return spy_collective_calls() - before;
}

static void repeats(void)
{
	MPI_File file = open_new("repeats");
	unsigned char *bytes = kt_alloc(LENGTH);
	int first, again, many, changed, told;
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank);
	for (int turn = 0; turn < 2; turn++) {
		told = spy_isends();
		set_view_at(file, 5000 * turn, MPI_INFO_NULL); // the second a step further
		first = meetings(file, bytes, REGION);
		again = meetings(file, bytes, REGION);
		many = meetings(file, bytes, LENGTH); // about 100 stripes of 64 KiB
		KT_CHECK(turn == 0 ? first > again : first == again,
			"turn %d: ranks met %d times in the first call, %d in the next", turn, first, again);
		told = spy_isends() - told;
		KT_CHECK(
			told == (turn || kt_rank ? 0 : kt_size - 1), "turn %d: this rank told of %d views", turn, told);
		KT_CHECK(again <= 3 && many <= again, "ranks met %d times in a call of one round, %d in one of many",
			again, many);
	}
	MPI_Datatype other;
	MPI_Type_vector(2, REGION, 3 * REGION, MPI_BYTE, &other);
	MPI_Type_commit(&other);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, other, "native", MPI_INFO_NULL));
	MPI_Type_free(&other);
	changed = meetings(file, bytes, LENGTH);
	KT_CHECK(changed > again, "ranks met %d times with another view, %d without", changed, again);
	free(bytes);
	KT_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenarios[] = {
		{"late", late}, {"repeats", repeats}, {"freed", freed}, {"closed", closed}, {"looked_at", looked_at}};
	int provided, level;
	threads = argc == 3 && !strcmp(argv[2], "threads");
	level = threads                                   ? MPI_THREAD_MULTIPLE :
		argc == 3 && !strcmp(argv[2], "funneled") ? MPI_THREAD_FUNNELED :
							    MPI_THREAD_SINGLE;
	MPI_Init_thread(&argc, &argv, level, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &kt_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &kt_size);
	KT_CHECK(argc == 3 && kt_size > 1, "requests DIR threads|funneled|single, at least two ranks");
	KT_CHECK(!threads || provided == MPI_THREAD_MULTIPLE, "the MPI library gives no threads");
	signal(SIGXFSZ, SIG_IGN);
	dir = argv[1];
	// Without threads errors are told by the call itself, at once: that is layer_errors' to test.
	for (int i = 0; i < (int)(sizeof scenarios / sizeof *scenarios); i++) {
		if (threads ? scenarios[i].run == repeats : scenarios[i].run == late)
			continue;
		kt_doing = scenarios[i].name;
		scenarios[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
	}
	KT_CHECK(spy_main_calls() > 0 && (spy_other_calls() > 0) == threads,
		"%d calls of MPI from the main thread, %d from others", spy_main_calls(), spy_other_calls());
	if (!kt_rank)
		printf("ok requests %s\n", argv[2]);
	kt_fini();
}
