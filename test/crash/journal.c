/* The power-loss checker's first half: the journal directory of a node.
 *
 * A life: a node writes cells of 64 bytes, flushes, hears that rounds are stable, at once, later or never; others write
 * the same files in between (after a recall, so the order is known) and have rounds to be replayed, too; the server's
 * process or machine goes down and comes back, the machine also in the middle of the replays; the node's daemon is
 * killed and restarted.  The server is a model (model.h): what it has applied, what of it is on its disk, what it
 * remembers of the node.  Whoever writes a cell writes the number of the write, which ascends, so newer bytes are known
 * by looking. Before every system call of the journal, and every lock that it takes, the disk is looked at as a power
 * failure could have left it there: the real recovery opens it, and what a mount would send to the server then is put
 * together as fuse/writeback/flush_session.c does. Checked: recovery starts; every byte is what some write wrote there;
 * no byte at the server becomes older (with the same server, with one that was restarted, and with one that lost power
 * too); after a mere kill nothing that returned is lost.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "test/crash/disk.h"
#include "test/crash/journal_priv.h"

struct life life;
const uint8_t node_boots[2][16] = {{'n', 1}, {'n', 2}};

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

	count = KR_MIN(count, CELLS - from);
	life.last_write++;
	for (uint32_t i = 0; i < count; i++)
		fill_cell(&cells[i], life.last_write, index, from + i);
	err = kr_journal_append(
		life.journal, file->file, from * CELL, cells, count * CELL, (struct kr_time){1, 0}, false, &extent);
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

static void note_applied(int index, struct kr_applied *applied)
{
	kr_journal_note_applied(life.journal, life.files[index].file, applied, ++life.server.round,
		(const uint8_t[16]){life.server.boot});
	called();
}

static void add_applied(int index, struct kr_extent_map *extents, uint64_t up_to)
{
	struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

	applied->up_to = up_to;
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(extents, &applied->extents);
	note_applied(index, applied);
	kr_list_append(&life.files[index].applied, &applied->link);
}

/* One round of the node's dirty bytes: the server first, then the journal. */
static void flush_file(int index)
{
	struct node_file *file = &life.files[index];
	struct meeting meeting = {.journal = life.journal, .file = index, .to = UINT64_MAX};
	uint32_t content[FILES][CELLS];
	struct kr_extent_map extents;

	if (kr_extent_map_empty(&file->dirty))
		return;
	memcpy(content[index], life.server.files[index].content, sizeof(content[index]));
	meeting.content = content;
	kr_extent_map_init(&extents);
	if (kr_extent_map_copy(&file->dirty, &extents) < 0)
		abort();
	kr_extent_map_for_each(&extents, hold, life.journal);
	kr_extent_map_for_each(&extents, send_piece, &meeting);
	memcpy(life.server.files[index].content, content[index], sizeof(content[index]));
	life.server.files[index].applied_seq = kr_extent_map_max_seq(&extents);
	called(); /* applied, and its answer lost */
	add_applied(index, &extents, life.server.files[index].applied_seq);
	kr_extent_map_truncate(&file->dirty, 0, kr_journal_release, life.journal);
	called();
}

/* STABLE comes. */
static void hear_stable(int index)
{
	struct kr_list *list = &life.files[index].applied;
	uint64_t synced = life.server.files[index].synced;
	struct kr_link *link, *before;

	for (link = list->head.prev; link != &list->head; link = before) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		before = link->prev;
		if (applied->round <= synced && life.crash->broken == BROKEN_RELEASE) /* the newest round first */
			kr_journal_drop_applied(life.journal, applied);
		else if (applied->round <= synced && life.crash->broken == BROKEN_MARK) /* a state before its writes */
			kr_journal_void_applied(life.journal, applied);
	}
	kr_journal_stable(life.journal, list, synced, (const uint8_t[16]){life.server.boot});
	called();
}

/* The server syncs the file, and what it says of that arrives, or not. */
static void make_stable(int index)
{
	model_sync(&life.server, index);
	if (!one_in(3))
		hear_stable(index);
}

/* Another node, after a recall. */
static void write_elsewhere(int index)
{
	uint32_t from = (uint32_t)chance(CELLS), count = (uint32_t)(1 + chance(20)), cells[CELLS] = {0};

	flush_file(index);
	if (one_in(3))
		make_stable(index);
	life.last_write++;
	for (uint32_t c = from; c < from + count && c < CELLS; c++)
		cells[c] = life.last_write;
	model_write(&life.server, index, cells);
	if (one_in(3))
		make_stable(index);
}

/* After a loss of the server's power: as replay_all, and what is synced is let go of.  The server's other nodes are
 * asked as well, and nothing of what it had is older afterwards. */
static void replay_life(int index, const uint32_t before[CELLS])
{
	struct model_file *file = &life.server.files[index];
	struct kr_list *list = &life.files[index].applied;
	struct kr_applied *applied, *after;
	uint32_t content[FILES][CELLS];

	memcpy(content[index], file->content, sizeof(content[index]));
	replay_all(life.journal, index, list, content);
	for (int c = 0; c < CELLS; c++)
		if (content[index][c] < before[c])
			crash_failed(life.crash, "file %d, cell %d: replays make write %u of %u", index, c,
				content[index][c], before[c]);
	memcpy(file->content, content[index], sizeof(content[index]));
	KR_LIST_FOR_EACH(applied, list, link) {
		file->applied_seq = applied->up_to;
		model_replayed(&life.server, index, applied->up_to, life.server.round + 1);
	}
	KR_LIST_FOR_EACH_SAFE(applied, after, list, link) {
		if (model_judge(&life.server, index, applied->round) == KR_SYNCED_ALL) {
			kr_journal_drop_applied(life.journal, applied);
			called();
		} else if (!one_in(8)) { /* else the power fails again before its answer is there */
			note_applied(index, applied);
		} else {
			life.unanswered = true;
			break;
		}
	}
}

static void restart_server(bool reboot)
{
	do {
		uint32_t before[FILES][CELLS];

		for (int i = 0; i < FILES; i++)
			memcpy(before[i], life.server.files[i].content, sizeof(before[i]));
		model_restart(&life.server, reboot);
		kr_journal_set_server(life.journal, life.server.instance);
		called();
		life.unanswered = false;
		for (int i = 0; i < FILES && reboot; i++)
			replay_life(i, before[i]);
	} while (life.unanswered);
}

static void open_life(void)
{
	struct kr_recovery recovery;
	struct kr_recovered_file *file;
	struct kr_link *link;
	int err;

	life.options.incarnation = ++life.incarnation;
	life.options.server_instance = life.server.instance;
	life.options.server_boot[0] = life.server.boot;
	err = kr_journal_open(&life.options, &recovery, &life.journal);
	if (err) {
		crash_failed(life.crash, "the live journal does not open: %s", strerror(-err));
		return;
	}
	for (int i = 0; i < FILES; i++) {
		struct kr_fid fid = model_fid(i);

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
		while ((link = kr_list_pop(&file->applied)))
			kr_list_append(&mine->applied, link);
	}
	kr_recovery_fini(&recovery);
	called();
}

static void drop_maps(void)
{
	for (int i = 0; i < FILES; i++) {
		struct kr_link *link;

		while ((link = kr_list_pop(&life.files[i].applied))) {
			struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

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
	crash_empty(crash->synced);
	model_begin(&life.server, crash->synced);
	life.server.forgetful = crash->broken == BROKEN_SYNCED;
	life.server.oblivious = crash->broken == BROKEN_REPLAYED;
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
	model_end(&life.server);
	disk_end();
}
