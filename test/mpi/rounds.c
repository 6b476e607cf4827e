// What the rounds of a collective call are: rounds DIR [mount]; `mount`: DIR is on a kairan mount, which takes batches.
//
//   overlapped   an aggregator's file I/O of the first round, held, ends no sooner than the messages of as many rounds
//   as there are slots are here;
//                with one slot not even receives of the next round are posted meanwhile.  Reading, it is the first
//                message that is held until the next round's file I/O has begun.  The thread that does the file I/O
//                makes no MPI call, the one that makes them no file I/O.
//   once         however ranks' pieces interleave, and if all want the same: each stripe is read in one call, each byte
//   once by all ranks together exact        with gaps between the pieces: exactly their bytes are written, each once,
//   in one batch per round; nothing is read
//
// Every rank is an aggregator and has bytes in every stripe.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kt.h"
#include "spy.h"
#include "spy_file.h"

enum {
	REGION = 1024,
	GAP = REGION / 2,
	STRIPE = 64 * REGION,
	ROUNDS = 10,
	REGIONS = ROUNDS * STRIPE / REGION,
	LENGTH = REGIONS * REGION
};
enum { PATIENCE_S = 240 }; // until a wait was in vain

static const char *dir;
static bool mount;

// Where rank `rank`'s data byte `i` lies when regions of all ranks take turns, with `gap` bytes behind each.
static size_t place(int rank, size_t i, size_t gap)
{
	return (i / REGION * (size_t)kt_size + (size_t)rank) * (REGION + gap) + i % REGION;
}

static size_t span(size_t gap)
{
	return (size_t)kt_size * REGIONS * (REGION + gap);
}

static bool is_gap(size_t at, size_t gap)
{
	return at % (REGION + gap) >= REGION;
}

static MPI_File open_file(const char *name, const char *slots, size_t gap)
{
	MPI_File file;
	MPI_Info hints;
	MPI_Datatype one, type;
	char nodes[64];
	int flag;
	MPI_Info_create(&hints);
	MPI_Info_set(hints, "romio_cb_write", "enable");
	MPI_Info_set(hints, "romio_cb_read", "enable");
	MPI_Info_set(hints, "cb_config_list", "*:*");
	snprintf(nodes, sizeof nodes, "%d", STRIPE);
	MPI_Info_set(hints, "striping_unit", nodes);
	if (slots)
		MPI_Info_set(hints, "kairan_slots", slots);
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
	MPI_Info_free(&hints);
	KT_CHECK(kt_is_layers(file), "the layer does not handle the file");
	KT_OK(MPI_File_get_info(file, &hints));
	MPI_Info_get(hints, "cb_nodes", sizeof nodes - 1, nodes, &flag);
	KT_CHECK(flag && atoi(nodes) == kt_size, "%s aggregators", flag ? nodes : "no");
	MPI_Info_free(&hints);
	MPI_Type_contiguous(REGION, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, (MPI_Aint)((REGION + gap) * (size_t)kt_size), &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, (MPI_Offset)place(kt_rank, 0, gap), MPI_BYTE, type, "native", MPI_INFO_NULL));
	MPI_Type_free(&one);
	MPI_Type_free(&type);
	return file;
}

// A file of these bytes, made past the layer.
static void make(const char *name, const struct kt_model *model)
{
	kt_save(model, kt_posix_path(dir, name));
	MPI_Barrier(MPI_COMM_WORLD);
}

static void doze(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

// ---- overlapped ----

static struct {
	int slots;
	int received, posted, sent; // before the call; `sent` since
	int begun;                  // file I/O
	int wrong;                  // the first I/O, or message, that came at another time than it must, from 1
	int expected, found;
} held;

static void tell(int which, int expected, int found)
{
	if (!held.wrong && expected != found) {
		held.expected = expected;
		held.found = found;
		__atomic_store_n(&held.wrong, which + 1, __ATOMIC_RELEASE);
	}
}

static int now_received(void)
{
	return spy_received() - held.received;
}

static int now_begun(void)
{
	return __atomic_load_n(&held.begun, __ATOMIC_ACQUIRE);
}

// How far it has come after a while: to `enough`, unless it never does.
static int wait_until(int (*reached)(void), int enough)
{
	time_t end = time(NULL) + PATIENCE_S;
	while (reached() < enough && time(NULL) < end)
		doze(1);
	return reached();
}

// In the I/O thread.
static void before_write(int nth)
{
	int messages = kt_size - 1, rounds = held.slots;
	if (nth == 0) {
		tell(nth, messages * rounds, wait_until(now_received, messages * rounds));
		doze(rounds == 1 ? 100 : 0); // for more than that, which must not come
		tell(nth, messages * rounds, spy_irecvs() - held.posted);
	} else if (rounds == 1) {
		tell(nth, messages * (nth + 1), spy_irecvs() - held.posted);
	}
}

static void before_read(int nth)
{
	__atomic_store_n(&held.begun, nth + 1, __ATOMIC_RELEASE);
}

// In the thread that reads collectively.
static void before_message(void)
{
	int round = held.sent / (kt_size - 1);
	if (held.slots > 1 && held.sent == 0) {
		tell(0, 2, wait_until(now_begun, 2) >= 2 ? 2 : now_begun());
	} else if (held.slots == 1) {
		doze(held.sent == 0 ? 100 : 0);
		tell(held.sent, round + 1, now_begun());
	}
	held.sent++;
}

static void check_held(const struct spy_file *seen, const char *what)
{
	KT_CHECK(!held.wrong, "%s, %d slots: %d of the messages or rounds at event %d, not %d", what, held.slots,
		held.found, held.wrong - 1, held.expected);
	KT_CHECK(seen->reads + seen->writes == ROUNDS && !seen->main_calls,
		"%s, %d slots: %d reads, %d writes, %d of them by the main thread", what, held.slots, seen->reads,
		seen->writes, seen->main_calls);
	KT_CHECK(spy_main_calls() > 0 && !spy_other_calls(),
		"%s, %d slots: %d calls of MPI from the main thread, %d from others", what, held.slots,
		spy_main_calls(), spy_other_calls());
}

static void overlapped_with(const char *slots)
{
	unsigned char *bytes = kt_alloc(LENGTH), *got = kt_alloc(LENGTH);
	MPI_File file = open_file("overlapped", slots, 0);
	kt_fill(bytes, LENGTH, (uint64_t)kt_rank);
	KT_OK(MPI_File_write_at_all(file, 0, bytes, REGION, MPI_BYTE, MPI_STATUS_IGNORE)); // tells the views
	memset(&held, 0, sizeof held);
	held.slots = kt_slots(file);
	KT_CHECK(held.slots >= (slots ? 1 : 2) && held.slots < ROUNDS, "%d slots", held.slots);
	held.received = spy_received();
	held.posted = spy_irecvs();
	spy_file_begin(kt_posix_path(dir, "overlapped"), span(0));
	spy_file_before(before_write);
	KT_OK(MPI_File_write_at_all(file, 0, bytes, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	spy_file_before(NULL);
	check_held(spy_file_end(), "write");
	KT_CHECK(now_received() == ROUNDS * (kt_size - 1), "%d messages", now_received());
	KT_OK(MPI_File_close(&file));

	file = open_file("overlapped", slots, 0);
	spy_file_begin(kt_posix_path(dir, "overlapped"), span(0));
	spy_file_before(before_read);
	spy_before_data(before_message);
	KT_OK(MPI_File_read_at_all(file, 0, got, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	spy_before_data(NULL);
	spy_file_before(NULL);
	check_held(spy_file_end(), "read");
	KT_CHECK(held.sent == ROUNDS * (kt_size - 1), "%d messages sent", held.sent);
	kt_same_bytes(got, bytes, LENGTH, "what was written");
	KT_OK(MPI_File_close(&file));
	free(bytes);
	free(got);
}

static void overlapped(void)
{
	overlapped_with("1");
	overlapped_with("2");
	overlapped_with(NULL);
}

// ---- once ----

struct total {
	int reads, writes, batches, beyond;
};

// What all ranks did together; `bytes` is replaced.
static struct total add_up(const struct spy_file *seen, unsigned char *bytes)
{
	int own[] = {seen->reads, seen->writes, seen->batches, seen->beyond}, all[4];
	MPI_Allreduce(own, all, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, bytes, (int)seen->size, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
	KT_CHECK(!all[3], "%d calls beyond the end", all[3]);
	return (struct total){.reads = all[0], .writes = all[1], .batches = all[2]};
}

static void once_with(const struct kt_model *model, size_t gap, bool same)
{
	MPI_File file = open_file("once", NULL, gap);
	size_t length = same ? span(gap) : LENGTH;
	unsigned char *got = kt_alloc(length), *expected = kt_alloc(length);
	if (same)
		KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	spy_file_begin(kt_posix_path(dir, "once"), span(gap));
	KT_OK(MPI_File_read_at_all(file, 0, got, (int)length, MPI_BYTE, MPI_STATUS_IGNORE));
	const struct spy_file *seen = spy_file_end();
	struct total total = add_up(seen, seen->read);
	KT_CHECK((size_t)total.reads == span(gap) / STRIPE && !total.writes,
		"gaps of %zu, %s: %d reads, %d writes, %zu stripes", gap, same ? "the same" : "in turn", total.reads,
		total.writes, span(gap) / STRIPE);
	for (size_t at = 0; at < span(gap); at++)
		KT_CHECK(seen->read[at] == 1 || (is_gap(at, gap) && !seen->read[at]),
			"gaps of %zu, %s: byte %zu is read %d times", gap, same ? "the same" : "in turn", at,
			seen->read[at]);
	for (size_t i = 0; i < length; i++)
		expected[i] = model->bytes[same ? i : place(kt_rank, i, gap)];
	kt_same_bytes(got, expected, length, "what was read");
	free(got);
	free(expected);
	KT_OK(MPI_File_close(&file));
}

static void once(void)
{
	struct kt_model model;
	kt_model_init(&model, span(GAP));
	kt_model_resize(&model, span(GAP));
	kt_fill(model.bytes, model.size, 5);
	make("once", &model);
	once_with(&model, 0, false);
	once_with(&model, GAP, false);
	once_with(&model, 0, true);
	kt_model_fini(&model);
}

// ---- exact ----

// Runs of bytes without a gap, cut where stripes end.
static int count_extents(void)
{
	int extents = 0;
	for (size_t at = 0; at < span(GAP); at++)
		extents += !is_gap(at, GAP) && (at % STRIPE == 0 || is_gap(at - 1, GAP));
	return extents;
}

static void exact(void)
{
	struct kt_model model;
	unsigned char *bytes = kt_alloc((size_t)kt_size * LENGTH), *own = bytes + (size_t)kt_rank * LENGTH;
	kt_model_init(&model, span(GAP));
	kt_model_resize(&model, span(GAP));
	kt_fill(model.bytes, model.size, 6);
	make("exact", &model);
	kt_fill(bytes, (size_t)kt_size * LENGTH, 7);
	for (int rank = 0; rank < kt_size; rank++)
		for (size_t i = 0; i < LENGTH; i++)
			model.bytes[place(rank, i, GAP)] = bytes[(size_t)rank * LENGTH + i];

	MPI_File file = open_file("exact", NULL, GAP);
	spy_file_begin(kt_posix_path(dir, "exact"), span(GAP));
	KT_OK(MPI_File_write_at_all(file, 0, own, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	const struct spy_file *seen = spy_file_end();
	struct total total = add_up(seen, seen->written);
	int stripes = (int)(span(GAP) / STRIPE), extents = count_extents();
	KT_CHECK(!total.reads, "%d reads", total.reads);
	KT_CHECK(total.writes == (mount ? stripes : extents) && total.batches == (mount ? stripes : 0),
		"%d writes, %d of them batches, of %d extents in %d stripes", total.writes, total.batches, extents,
		stripes);
	for (size_t at = 0; at < span(GAP); at++)
		KT_CHECK(seen->written[at] == !is_gap(at, GAP), "byte %zu is written %d times", at, seen->written[at]);
	KT_OK(MPI_File_close(&file));
	MPI_Barrier(MPI_COMM_WORLD);
	kt_same(&model, kt_posix_path(dir, "exact"));
	kt_model_fini(&model);
	free(bytes);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenarios[] = {{"overlapped", overlapped}, {"once", once}, {"exact", exact}};
	kt_init(&argc, &argv);
	mount = argc == 3 && !strcmp(argv[2], "mount");
	KT_CHECK((argc == 2 || mount) && kt_size > 1, "rounds DIR [mount], at least two ranks");
	dir = argv[1];
	for (int i = 0; i < (int)(sizeof scenarios / sizeof *scenarios); i++) {
		kt_doing = scenarios[i].name;
		scenarios[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (!kt_rank)
		printf("ok rounds%s\n", mount ? " mount" : "");
	kt_fini();
}
