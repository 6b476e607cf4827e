/* The power-loss checker's first half: the journal directory of a node.
 *
 * A life: a node writes cells of 64 bytes, flushes, hears that rounds are stable; others write the same files in between
 * (after a recall, so the order is known); the server's process or machine goes down and comes back; the node's daemon is
 * killed and restarted.  The server is a model: what it has applied, what of it is on its disk, what it remembers of the
 * node.  Whoever writes a cell writes the number of the write, which ascends, so newer bytes are known by looking.
 * Before every system call of the journal the disk is looked at as a power failure could have left it there: the real
 * recovery opens it, and what a mount would send to the server then is put together as fuse/flush_session.c does.
 * Checked: recovery starts; every byte is what some write wrote there; no byte at the server becomes older (with the same
 * server, with one that was restarted, and with one that lost power too); after a mere kill nothing that returned is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/util.h"
#include "fuse/journal.h"
#include "fuse/journal_format.h"
#include "fuse/journal_record.h"
#include "test/crash/crash.h"
#include "test/crash/disk.h"

enum { FILES = 4, CELLS = 192, CELL = 64, RUN_MAX = 60 };

struct cell {
	uint32_t write, file, cell, mark;
	uint8_t filler[CELL - 16];
};

struct node_file {
	struct kr_journal_file *file;
	struct kr_extent_map dirty;
	struct kr_list applied; /* struct kr_applied */
};

struct server_file {
	uint32_t content[CELLS], durable[CELLS]; /* numbers of writes */
	uint64_t applied_seq;                    /* of the node, as far as this instance knows */
};

static struct life {
	struct crash *crash;
	struct kr_journal *journal;
	struct kr_journal_options options;
	struct node_file files[FILES];
	uint64_t incarnation;

	struct server_file server[FILES];
	uint64_t instance, round;
	uint8_t boot;

	uint32_t last_write;
	uint32_t own[FILES][CELLS]; /* the newest write of the node that returned */
	uint64_t call_began;        /* event before the present call of the journal */
	uint32_t sample;            /* look at one state in so many */
} life;

static const uint8_t node_boots[2][16] = {{'n', 1}, {'n', 2}};

static struct kr_fid fid_of(int index)
{
	struct kr_fid fid = {.length = 12};

	memset(fid.bytes, 'a' + index, 12);
	return fid;
}

static int index_of(const struct kr_fid *fid)
{
	return fid->bytes[0] - 'a';
}

static void fill_cell(struct cell *cell, uint32_t write, int file, uint32_t number)
{
	*cell = (struct cell){.write = write, .file = (uint32_t)file, .cell = number, .mark = 0xce11};
	memset(cell->filler, (int)(write % 251 + 1), sizeof(cell->filler));
}

static bool cell_is_sound(const struct cell *cell, int file, uint32_t number)
{
	struct cell expected;

	fill_cell(&expected, cell->write, file, number);
	return cell->write > 0 && cell->write <= life.last_write && memcmp(cell, &expected, sizeof(expected)) == 0;
}

/* --- looking at a state --------------------------------------------------------------------------------------------- */

/* What a mount makes of a recovered journal, at one of the servers that it may meet. */
struct meeting {
	struct kr_journal *journal;
	int file;
	uint64_t from, to;              /* only extents with from < seq <= to are sent */
	uint32_t (*content)[CELLS];
	const char *what;
};

static void send_piece(void *context, const struct kr_extent *piece)
{
	struct meeting *meeting = context;
	struct cell cells[CELLS];
	int err;

	if (piece->offset % CELL || piece->length % CELL || piece->offset + piece->length > sizeof(cells)) {
		crash_failed(life.crash, "an extent at %llu of %llu bytes, which nobody wrote", (unsigned long long)piece->offset,
			(unsigned long long)piece->length);
		return;
	}
	err = kr_journal_read_verified(meeting->journal, piece->position, cells, piece->length);
	if (err) {
		crash_failed(life.crash, "recovered bytes cannot be read: %s", strerror(-err));
		return;
	}
	for (uint32_t i = 0; i < piece->length / CELL; i++) {
		uint32_t number = (uint32_t)(piece->offset / CELL) + i;

		if (!cell_is_sound(&cells[i], meeting->file, number))
			crash_failed(life.crash, "file %d, cell %u: recovered bytes that nobody wrote there", meeting->file, number);
		if (piece->seq > meeting->from && piece->seq <= meeting->to)
			meeting->content[meeting->file][number] = cells[i].write;
	}
}

enum meets { SAME_SERVER, RESTARTED_SERVER, REBOOTED_SERVER, MEETINGS };
static const char *const meets_text[] = {"the same server", "a restarted server", "a server that lost power too"};

/* RECLAIM, replays, flush: CONTENT is what the server has then. */
static void meet(struct kr_journal *journal, const struct kr_recovery *recovery, enum meets meets,
	uint32_t content[FILES][CELLS])
{
	uint8_t boot[16] = {meets == REBOOTED_SERVER ? life.boot + 1 : life.boot};
	struct kr_recovered_file *file;

	for (int i = 0; i < FILES; i++)
		memcpy(content[i], meets == REBOOTED_SERVER ? life.server[i].durable : life.server[i].content,
			sizeof(content[i]));
	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		int index = index_of(&file->file->fid);
		struct meeting meeting = {.journal = journal, .file = index, .to = UINT64_MAX, .content = content};
		struct kr_applied *applied;

		if (index < 0 || index >= FILES) {
			crash_failed(life.crash, "a file that there never was");
			return;
		}
		KR_LIST_FOR_EACH(applied, &file->applied, link)
			if (memcmp(applied->boot_id, boot, 16) != 0)
				kr_extent_map_for_each(&applied->extents, send_piece, &meeting);
		if (meets == SAME_SERVER && life.crash->broken != BROKEN_SETTLE)
			meeting.from = life.server[index].applied_seq;
		kr_extent_map_for_each(&file->dirty, send_piece, &meeting);
	}
}

/* No byte may be older than what the server had; after a mere kill none may be missing. */
static void judge(enum meets meets, bool killed, uint32_t content[FILES][CELLS])
{
	for (int i = 0; i < FILES; i++) {
		for (uint32_t c = 0; c < CELLS; c++) {
			uint32_t had = meets == REBOOTED_SERVER ? life.server[i].durable[c] : life.server[i].content[c];
			uint32_t least = killed ? KR_MAX(had, life.own[i][c]) : had;

			if (content[i][c] < least)
				crash_failed(life.crash, "%s, %s: file %d, cell %u has write %u where %u was", meets_text[meets],
					killed ? "the daemon was killed" : "the node lost power", i, c, content[i][c], least);
		}
	}
}

/* Flips a byte of the last record's data and makes its checksums right: bytes that nobody wrote. */
static void forge(const char *directory)
{
	char path[128];

	for (unsigned pair = 1; pair < 64; pair++) {
		struct kr_journal_header header;
		struct kr_journal_record record;
		uint8_t data[KR_JOURNAL_RECORD_MAX];
		int index, bytes;

		snprintf(path, sizeof(path), "%s/%08x.index", directory, pair);
		index = open(path, O_RDWR);
		snprintf(path, sizeof(path), "%s/%08x.data", directory, pair);
		bytes = open(path, O_RDWR);
		if (index >= 0 && bytes >= 0 && kr_pread_full(index, &header, sizeof(header), 0) == 0) {
			for (uint64_t at = KR_JOURNAL_HEADER_SIZE; kr_pread_full(index, &record, sizeof(record), at) == 0;
			     at += sizeof(record)) {
				if (record.check == 0 || record.type != KR_JOURNAL_WRITE || record.keep != 0 ||
					record.length > sizeof(data) || kr_pread_full(bytes, data, record.length, record.data))
					continue;
				data[40] ^= 1;
				record.data_check = kr_checksum(data, record.length);
				record.check = kr_journal_record_check(&record, header.salt);
				kr_pwrite_full(bytes, data, record.length, record.data);
				kr_pwrite_full(index, &record, sizeof(record), at);
			}
		}
		if (index >= 0)
			close(index);
		if (bytes >= 0)
			close(bytes);
	}
}

/* Takes the data of the newest segment away: what a writer that does not write would leave. */
static void lose_tail(const char *directory)
{
	char path[128];

	for (unsigned pair = 64; pair > 0; pair--) {
		snprintf(path, sizeof(path), "%s/%08x.data", directory, pair);
		if (truncate(path, 64) == 0)
			return;
	}
}

static void look_at(enum disk_style style, enum meets meets)
{
	struct crash *crash = life.crash;
	struct kr_journal_options options = life.options;
	bool killed = style == DISK_WHOLE;
	uint32_t content[FILES][CELLS];
	struct kr_recovery recovery;
	struct kr_journal *journal;
	int err;

	if (crash->broken == BROKEN_CHECKSUM)
		forge(crash->state);
	if (crash->broken == BROKEN_TAIL && killed)
		lose_tail(crash->state);
	options.directory = crash->state;
	options.incarnation = life.incarnation + 1;
	options.node_boot = node_boots[killed || crash->broken == BROKEN_DOUBT ? 0 : 1];
	options.server_instance = meets == SAME_SERVER ? life.instance : life.instance + 1;
	options.server_boot[0] = meets == REBOOTED_SERVER ? life.boot + 1 : life.boot;
	err = kr_journal_open(&options, &recovery, &journal);
	if (err) {
		crash_failed(crash, "the journal does not open: %s", strerror(-err));
		return;
	}
	meet(journal, &recovery, meets, content);
	/* A daemon that was killed asks RECLAIM; a restarted server knows nothing, and then order is P3's business. */
	if (!killed || meets == SAME_SERVER || meets == REBOOTED_SERVER)
		judge(meets, killed, content);
	crash->records += recovery.records;
	crash->doubtful += recovery.doubtful > 0;
	crash->damages += !kr_list_empty(&recovery.damage);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
}

/* After a recovery the node goes on, is killed, and recovers again: what the first had to leave aside must not come back as
 * something else. */
static void look_again(void)
{
	struct crash *crash = life.crash;
	struct kr_journal_options options = life.options;
	struct kr_fid fid = fid_of(FILES);
	struct kr_recovered_file *file;
	struct kr_recovery recovery;
	struct kr_journal *journal;
	struct kr_extent extent;
	uint8_t byte = 7;

	options.directory = crash->state;
	options.node_boot = node_boots[1];
	options.server_instance = life.instance + 2;
	options.server_boot[0] = life.boot + 1;
	for (int round = 0; round < 2 && !crash->failure; round++) {
		struct kr_journal_file *fresh = kr_journal_file_new(&fid, "fresh");

		options.incarnation = life.incarnation + 2 + (uint64_t)round;
		if (kr_journal_open(&options, &recovery, &journal) < 0) {
			crash_failed(crash, "the journal does not open again");
			kr_journal_file_free(fresh);
			return;
		}
		KR_LIST_FOR_EACH(file, &recovery.files, link) {
			if (!kr_fid_equal(&file->file->fid, &fid))
				continue;
			if (round == 0 || file->dirty.bytes != 1)
				crash_failed(crash, "%llu bytes have come to a file that one was written to",
					(unsigned long long)file->dirty.bytes);
		}
		kr_recovery_fini(&recovery);
		if (round == 0 && kr_journal_append(journal, fresh, 5, &byte, 1, (struct kr_time){1, 0}, false, &extent) < 0)
			crash_failed(crash, "the recovered journal takes no write");
		kr_journal_free(journal);
		kr_journal_file_free(fresh);
	}
}

/* Before a system call of the journal. */
static void before_call(void)
{
	struct crash *crash = life.crash;
	enum disk_style style = (enum disk_style)chance(DISK_STYLES);

	if (crash->failure || crash->points >= crash->wanted || !one_in(life.sample))
		return;
	crash_empty(crash->state);
	/* The stores of one call are known by place, not in their order: a kill is looked at between calls only. */
	disk_make(crash->state, style, style == DISK_WHOLE ? disk_events()
		: life.call_began + chance(disk_events() - life.call_began + 1));
	look_at(style, (enum meets)chance(MEETINGS));
	if (style != DISK_WHOLE && !crash->failure && one_in(4))
		look_again();
	crash->points++;
	crash->powers += style != DISK_WHOLE;
}

/* --- the life ------------------------------------------------------------------------------------------------------- */

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
	err = kr_journal_append(life.journal, file->file, from * CELL, cells, count * CELL, (struct kr_time){1, 0}, false, &extent);
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

static void add_applied(int index, struct kr_extent_map *extents, uint64_t up_to)
{
	struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

	applied->up_to = up_to;
	applied->round = ++life.round;
	applied->boot_id[0] = life.boot;
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(extents, &applied->extents);
	applied->mark = kr_journal_applied(life.journal, life.files[index].file, up_to, applied->round, applied->boot_id);
	kr_list_append(&life.files[index].applied, &applied->link);
	called();
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
	memcpy(content[index], life.server[index].content, sizeof(content[index]));
	meeting.content = content;
	kr_extent_map_init(&extents);
	if (kr_extent_map_copy(&file->dirty, &extents) < 0)
		abort();
	kr_extent_map_for_each(&extents, hold, life.journal);
	kr_extent_map_for_each(&extents, send_piece, &meeting);
	memcpy(life.server[index].content, content[index], sizeof(content[index]));
	life.server[index].applied_seq = kr_extent_map_max_seq(&extents);
	called(); /* applied, and its answer lost */
	add_applied(index, &extents, life.server[index].applied_seq);
	kr_extent_map_truncate(&file->dirty, 0, kr_journal_release, life.journal);
	called();
}

static void drop_applied(struct kr_applied *applied)
{
	kr_list_remove(&applied->link);
	kr_journal_release_map(life.journal, &applied->extents);
	called();
	kr_journal_release_mark(life.journal, applied->mark);
	called();
	free(applied);
}

/* The server has synced the file, and says so. */
static void make_stable(int index)
{
	struct kr_applied *applied, *next;

	memcpy(life.server[index].durable, life.server[index].content, sizeof(life.server[index].durable));
	KR_LIST_FOR_EACH_SAFE(applied, next, &life.files[index].applied, link)
		drop_applied(applied);
}

/* Another node, after a recall; what it writes is synced, so that no replay of its is needed here. */
static void write_elsewhere(int index)
{
	uint32_t from = (uint32_t)chance(CELLS), count = (uint32_t)(1 + chance(20));

	flush_file(index);
	make_stable(index);
	life.last_write++;
	for (uint32_t c = from; c < from + count && c < CELLS; c++)
		life.server[index].content[c] = life.last_write;
	memcpy(life.server[index].durable, life.server[index].content, sizeof(life.server[index].durable));
}

static void restart_server(bool reboot)
{
	life.instance++;
	life.boot += reboot;
	for (int i = 0; i < FILES; i++) {
		life.server[i].applied_seq = 0;
		if (reboot)
			memcpy(life.server[i].content, life.server[i].durable, sizeof(life.server[i].content));
	}
	kr_journal_set_server(life.journal, life.instance);
	called();
	for (int i = 0; i < FILES && reboot; i++) {
		struct kr_list old;
		struct kr_link *link;

		kr_list_init(&old);
		while ((link = kr_list_pop(&life.files[i].applied)))
			kr_list_append(&old, link);
		while ((link = kr_list_pop(&old))) { /* replays */
			struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);
			struct meeting meeting = {.journal = life.journal, .file = i, .to = UINT64_MAX};
			uint32_t content[FILES][CELLS];
			uint64_t mark = applied->mark;

			memcpy(content[i], life.server[i].content, sizeof(content[i]));
			meeting.content = content;
			kr_extent_map_for_each(&applied->extents, send_piece, &meeting);
			memcpy(life.server[i].content, content[i], sizeof(content[i]));
			life.server[i].applied_seq = KR_MAX(life.server[i].applied_seq, applied->up_to);
			add_applied(i, &applied->extents, applied->up_to);
			kr_journal_release_mark(life.journal, mark);
			called();
			free(applied);
		}
	}
}

static void open_life(void)
{
	struct kr_recovery recovery;
	struct kr_recovered_file *file;
	struct kr_link *link;
	int err;

	life.options.incarnation = ++life.incarnation;
	life.options.server_instance = life.instance;
	life.options.server_boot[0] = life.boot;
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

/* The daemon is killed and started again: the journal object stays where it is, as memory of a process that is gone, within
 * reach of a leak checker. */
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
	case 0: write_elsewhere(file); break;
	case 1: case 2: case 3: flush_file(file); break;
	case 4: case 5: make_stable(file); break;
	case 6: disk_write_back(); break;
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
	default: write_cells(file); break;
	}
}

void crash_journal(struct crash *crash)
{
	uint64_t until = KR_MIN(crash->points + 400, crash->wanted);

	memset(&life, 0, sizeof(life));
	life.crash = crash;
	life.sample = 3 + (uint32_t)chance(6);
	life.instance = life.boot = 1;
	life.options = (struct kr_journal_options){.directory = crash->live, .export_id = {1}, .node_id = {2},
		.max = KR_JOURNAL_MIN, .node_boot = node_boots[0]};
	crash_empty(crash->live);
	disk_begin(crash->live, crash->ordered, before_call);
	open_life();
	for (int i = 0; i < 4000 && crash->points < until && !crash->failure; i++)
		step();
	if (!crash->failure)
		kr_journal_free(life.journal);
	drop_maps();
	disk_end();
}
