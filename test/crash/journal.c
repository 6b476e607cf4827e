/* The power-loss checker's first half: the journal directory of a node.
 *
 * A life: a node writes cells of 64 bytes, flushes, and hears that rounds are durable, at once or later, or that a sync
 * has failed.  Another node writes the same files in between, when the first has heard that all its bytes are durable.
 * The server's process or machine goes down and comes back; the node's daemon is killed and restarted, or gets a new
 * session.  The server is a model (model.h).  A node that writes a cell writes the number of the write, which ascends,
 * so newer bytes are known by looking.
 * Before every system call of the journal, and every lock that it takes, the disk is looked at as a power failure could
 * have left it there: the real recovery opens it, and what a mount would send to the server then is put together.
 * Checked: recovery starts; every byte is what some write wrote there; no byte at the server becomes older (with the
 * same server, with one that was restarted, and with one that lost power too); after a mere kill nothing that returned
 * is lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "test/crash/disk.h"
#include "test/crash/journal_priv.h"

struct life life;
const uint8_t node_boots[2][16] = {{'n', 1}, {'n', 2}};

struct kr_fid fid_of(int index)
{
	struct kr_fid fid = {.length = 12};

	memset(fid.bytes, 'a' + index, 12);
	return fid;
}

int index_of(const struct kr_fid *fid)
{
	return fid->bytes[0] - 'a';
}

void fill_cell(struct cell *cell, uint32_t write, int file, uint32_t number)
{
	*cell = (struct cell){.write = write, .file = (uint32_t)file, .cell = number, .mark = 0xce11};
	memset(cell->filler, (int)(write % 251 + 1), sizeof(cell->filler));
}

/* --- the life --------------------------------------------------------------------------------- */

/* Around each call of the journal: its stores become events, and the states between are looked at. */
static void called(void)
{
	disk_before_call();
	life.call_began = disk_events();
}

static void write_cells(int index)
{
	struct node_file *file = &life.files[index];
	uint32_t from = (uint32_t)chance(CELLS), count = (uint32_t)(1 + chance(one_in(4) ? RUN_MAX : 6));
	struct cell cells[RUN_MAX];
	struct kr_extent extent;
	int err;

	if (life.server.files[index].theirs)
		model_sync(&life.server, index); /* the other node has given WRITE back */
	life.server.files[index].theirs = false;
	count = KR_MIN(count, CELLS - from);
	life.last_write++;
	for (uint32_t i = 0; i < count; i++)
		fill_cell(&cells[i], life.last_write, index, from + i);
	err = kr_journal_append(life.journal, file->file, from * CELL, cells, count * CELL,
		(struct kr_time){(int64_t)++life.server.now, 0}, false, &extent);
	if (err == -EAGAIN)
		return;
	called(); /* or the marks of what it covers would seem to be stored before it */
	if (err)
		crash_failed(life.crash, "append: %s", strerror(-err));
	else if (kr_extent_map_insert(&file->dirty, &extent, kr_journal_release, life.journal) < 0)
		abort();
	called();
	for (uint32_t i = 0; i < count && !err; i++)
		life.own[index][from + i] = life.last_write;
}

static void hold(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

/* One round of the node's dirty bytes: the server first, then the node's memory. */
static void flush_file(int index)
{
	struct node_file *file = &life.files[index];
	struct applied_round *applied;
	uint64_t up_to = kr_extent_map_max_seq(&file->dirty);

	if (kr_extent_map_empty(&file->dirty))
		return;
	applied = kr_xcalloc(1, sizeof(*applied));
	if (kr_extent_map_copy(&file->dirty, &applied->extents) < 0)
		abort();
	kr_extent_map_for_each(&applied->extents, hold, life.journal);
	send_map(life.journal, index, &applied->extents, 0, &life.server);
	applied->round = life.server.round;
	called(); /* applied, and its answer lost */
	kr_list_append(&file->applied, &applied->link);
	kr_extent_map_drop_until(&file->dirty, up_to, kr_journal_release, life.journal);
	called();
}

/* STABLE comes. */
static void hear_stable(int index)
{
	struct kr_list *list = &life.files[index].applied;
	const bool newest_first = life.crash->broken == BROKEN_RELEASE;

	while (!kr_list_empty(list)) {
		struct applied_round *applied =
			KR_LIST_ENTRY(newest_first ? list->head.prev : list->head.next, struct applied_round, link);

		if (applied->round > life.server.files[index].stable)
			break;
		kr_list_remove(&applied->link);
		kr_journal_release_map(life.journal, &applied->extents);
		free(applied);
		called();
	}
}

/* The server syncs the file, and what it says of that arrives, or not. */
static void make_stable(int index)
{
	model_sync(&life.server, index);
	if (!one_in(3))
		hear_stable(index);
}

static void redirty_piece(void *context, const struct kr_extent *piece)
{
	if (kr_extent_map_insert_under(context, piece, kr_journal_release, life.journal) < 0)
		abort();
}

/* What was applied after the round AFTER goes back under what is dirty, the latest first. */
static void redirty(int index, uint64_t after)
{
	struct node_file *file = &life.files[index];

	while (!kr_list_empty(&file->applied)) {
		struct applied_round *applied = KR_LIST_ENTRY(file->applied.head.prev, struct applied_round, link);

		if (applied->round <= after)
			break;
		kr_list_remove(&applied->link);
		kr_extent_map_for_each(&applied->extents, redirty_piece, &file->dirty);
		kr_extent_map_fini(&applied->extents);
		free(applied);
		called();
	}
}

/* UNSTABLE comes. */
static void fail_sync(int index)
{
	if (life.server.files[index].theirs)
		return;
	model_fail_sync(&life.server, index);
	redirty(index, life.server.files[index].stable);
}

/* RECLAIM says what is durable. */
static void reclaim(int index)
{
	uint64_t seq = life.server.files[index].applied_seq;

	if (!seq)
		return;
	model_sync(&life.server, index);
	kr_journal_release_until(life.journal, &life.files[index].dirty, seq);
	called();
}

static void begin_session(void)
{
	for (int i = 0; i < FILES; i++) {
		redirty(i, 0);
		reclaim(i);
	}
}

static void restart_server(bool reboot)
{
	model_restart(&life.server, reboot);
	begin_session();
}

/* The other node, when this one has heard that all it wrote is durable. */
static void write_elsewhere(int index)
{
	uint32_t from = (uint32_t)chance(CELLS), count = (uint32_t)(1 + chance(20)), cells[CELLS] = {0};

	flush_file(index);
	model_sync(&life.server, index);
	if (life.crash->broken != BROKEN_SHARE)
		hear_stable(index);
	life.last_write++;
	for (uint32_t c = from; c < from + count && c < CELLS; c++)
		cells[c] = life.last_write;
	model_apply(&life.server, index, cells, 0);
	if (one_in(3))
		model_sync(&life.server, index);
}

static void open_life(void)
{
	struct kr_recovery recovery;
	struct kr_recovered_file *file;
	int err;

	life.options.incarnation = ++life.incarnation;
	err = kr_journal_open(&life.options, &recovery, &life.journal);
	if (err) {
		crash_failed(life.crash, "the live journal does not open: %s", strerror(-err));
		return;
	}
	for (int i = 0; i < FILES; i++) {
		struct kr_fid fid = fid_of(i);

		life.files[i].file = kr_journal_file_new(&fid, "file");
		kr_extent_map_init(&life.files[i].dirty);
		kr_list_init(&life.files[i].applied);
	}
	KR_LIST_FOR_EACH(file, &recovery.files, link) {
		struct node_file *mine = &life.files[index_of(&file->file->fid)];

		kr_journal_file_free(mine->file);
		mine->file = file->file;
		file->file = NULL;
		kr_extent_map_move(&file->dirty, &mine->dirty);
	}
	kr_recovery_fini(&recovery);
	called();
	for (int i = 0; i < FILES; i++)
		reclaim(i);
}

static void drop_maps(void)
{
	for (int i = 0; i < FILES; i++) {
		struct applied_round *applied;

		while ((applied = KR_LIST_POP(&life.files[i].applied, struct applied_round, link))) {
			kr_extent_map_fini(&applied->extents);
			free(applied);
		}
		kr_extent_map_fini(&life.files[i].dirty);
		kr_journal_file_free(life.files[i].file);
	}
}

/* The daemon is killed and started again: the journal object stays where it is, as memory of a process that is gone,
 * within reach of a leak checker. */
static void restart_daemon(void)
{
	static struct kr_journal *gone[1024];
	static size_t count;

	if (count == KR_ARRAY_SIZE(gone))
		return;
	gone[count++] = life.journal;
	disk_forget_mappings();
	drop_maps();
	open_life();
}

static void step(void)
{
	int file = (int)chance(FILES);

	switch (chance(48)) {
	case 0:
		write_elsewhere(file);
		break;
	case 1:
	case 2:
	case 3:
		flush_file(file);
		break;
	case 4:
		make_stable(file);
		break;
	case 5:
		hear_stable(file);
		break;
	case 6:
		disk_write_back();
		break;
	case 7:
		if (one_in(6))
			restart_server(one_in(2));
		break;
	case 8:
		if (one_in(12))
			restart_daemon();
		break;
	case 9:
		if (one_in(8))
			disk_settle();
		break;
	case 10:
		fail_sync(file);
		break;
	case 11:
		if (one_in(4))
			begin_session();
		break;
	default:
		write_cells(file);
		break;
	}
}

void crash_journal(struct crash *crash)
{
	uint64_t until = KR_MIN(crash->points + 400, crash->wanted);

	memset(&life, 0, sizeof(life));
	life.crash = crash;
	life.sample = 5 + (uint32_t)chance(10);
	life.options = (struct kr_journal_options){.directory = crash->live,
		.export_id = {1},
		.node_id = {2},
		.max = KR_JOURNAL_MIN,
		.node_boot = node_boots[0]};
	crash_empty(crash->live);
	disk_begin(crash->live, crash->ordered, before_call);
	disk_look_at_locks();
	open_life();
	for (int i = 0; i < 4000 && crash->points < until && !crash->failure; i++)
		step();
	if (!crash->failure)
		kr_journal_free(life.journal);
	drop_maps();
	disk_end();
}
