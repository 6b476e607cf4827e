/* Looking at what a crash could have left of a journal: the real recovery opens it, what a mount would send to the
 * server then is put together as fuse/writeback/flush_session.c does, and the bytes are judged (see journal.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/util.h"
#include "fuse/journal/journal_format.h"
#include "fuse/journal/journal_record.h"
#include "test/crash/disk.h"
#include "test/crash/journal_priv.h"

static bool cell_is_sound(const struct cell *cell, int file, uint32_t number)
{
	struct cell expected;

	fill_cell(&expected, cell->write, file, number);
	return cell->write > 0 && cell->write <= life.last_write && memcmp(cell, &expected, sizeof(expected)) == 0;
}

void send_piece(void *context, const struct kr_extent *piece)
{
	struct meeting *meeting = context;
	struct cell cells[CELLS];
	int err;

	if (piece->offset % CELL || piece->length % CELL || piece->offset + piece->length > sizeof(cells)) {
		crash_failed(life.crash, "an extent at %llu of %llu bytes, which nobody wrote",
			(unsigned long long)piece->offset, (unsigned long long)piece->length);
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
			crash_failed(life.crash, "file %d, cell %u: recovered bytes that nobody wrote there",
				meeting->file, number);
		if (piece->seq > meeting->from && piece->seq <= meeting->to)
			meeting->content[meeting->file][number] = cells[i].write;
	}
}

enum meets { SAME_SERVER, RESTARTED_SERVER, REBOOTED_SERVER, MEETINGS };
static const char *const meets_text[] = {"the same server", "a restarted server", "a server that lost power too"};

/* The server goes by the order of rounds, this node's and others'. */
static uint64_t order_of(const struct kr_applied *applied)
{
	return life.crash->broken == BROKEN_ORDER ? applied->round : applied->order;
}

static struct kr_applied *next_replay(const struct kr_list *list, uint64_t after)
{
	struct kr_applied *applied, *next = NULL;

	KR_LIST_FOR_EACH(applied, list, link)
		if (order_of(applied) > after && (!next || order_of(applied) < order_of(next)))
			next = applied;
	return next;
}

void replay_all(struct kr_journal *journal, int file, const struct kr_list *list, uint32_t content[FILES][CELLS])
{
	struct meeting meeting = {.journal = journal, .file = file, .to = UINT64_MAX, .content = content};
	struct kr_applied *applied;
	uint64_t order = 0;
	int next = 0;

	while ((applied = next_replay(list, order))) {
		order = order_of(applied);
		model_replay(&life.server, file, &next, order, content[file]);
		switch (model_judge(&life.server, file, applied->round)) {
		case KR_SYNCED_ALL:
			break;
		case KR_SYNCED_NOT:
			kr_extent_map_for_each(&applied->extents, send_piece, &meeting);
			break;
		case KR_SYNCED_OVERTAKEN:
			crash_failed(life.crash, "file %d: round %llu is taken for a late one", file,
				(unsigned long long)applied->round);
		}
	}
	model_replay(&life.server, file, &next, UINT64_MAX, content[file]);
}

/* What a server has applied anew that did not lose its power meanwhile, only its answer did not come; it knows what it
 * has up to SEQ. */
static void replay_unanswered(
	struct kr_journal *journal, int file, const struct kr_list *list, uint64_t seq, uint32_t content[FILES][CELLS])
{
	struct meeting meeting = {.journal = journal, .file = file, .to = UINT64_MAX, .content = content};
	const uint8_t boot[16] = {life.server.boot};
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, list, link)
		if (memcmp(applied->boot_id, boot, 16) != 0 && applied->up_to > seq &&
			model_judge(&life.server, file, applied->round) != KR_SYNCED_ALL)
			kr_extent_map_for_each(&applied->extents, send_piece, &meeting);
}

/* RECLAIM, replays, flush: CONTENT is what the server has then. */
static void meet(struct kr_journal *journal, const struct kr_recovery *recovery, enum meets meets,
	uint32_t content[FILES][CELLS])
{
	struct kr_recovered_file *file, *other;

	for (int i = 0; i < FILES; i++)
		memcpy(content[i],
			meets == REBOOTED_SERVER ? life.server.files[i].durable : life.server.files[i].content,
			sizeof(content[i]));
	for (int i = 0; i < FILES; i++) {
		struct kr_fid fid = model_fid(i);
		struct kr_list none;

		kr_list_init(&none);
		file = NULL;
		KR_LIST_FOR_EACH(other, &recovery->files, link)
			file = kr_fid_equal(&other->file->fid, &fid) ? other : file;
		if (meets == REBOOTED_SERVER)
			replay_all(journal, i, file ? &file->applied : &none, content);
		else if (file)
			replay_unanswered(journal, i, &file->applied,
				meets == SAME_SERVER ? life.server.files[i].applied_seq :
						       model_replayed_seq(&life.server, i),
				content);
	}
	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		int index = index_of(&file->file->fid);
		struct meeting meeting = {.journal = journal, .file = index, .to = UINT64_MAX, .content = content};

		if (index < 0 || index >= FILES) {
			crash_failed(life.crash, "a file that there never was");
			return;
		}
		if (meets == SAME_SERVER && life.crash->broken != BROKEN_SETTLE)
			meeting.from = life.server.files[index].applied_seq;
		kr_extent_map_for_each(&file->dirty, send_piece, &meeting);
	}
}

/* No byte may be older than what the server had; after a mere kill none may be missing. */
static void judge(enum meets meets, bool killed, uint32_t content[FILES][CELLS])
{
	for (int i = 0; i < FILES; i++) {
		for (uint32_t c = 0; c < CELLS; c++) {
			uint32_t had = meets == REBOOTED_SERVER && !killed ? life.server.files[i].durable[c] :
									     life.server.files[i].content[c];
			uint32_t least = killed ? KR_MAX(had, life.own[i][c]) : had;

			if (content[i][c] < least)
				crash_failed(life.crash, "%s, %s: file %d, cell %u has write %u where %u was",
					meets_text[meets], killed ? "the daemon was killed" : "the node lost power", i,
					c, content[i][c], least);
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
			for (uint64_t at = KR_JOURNAL_HEADER_SIZE;
				kr_pread_full(index, &record, sizeof(record), at) == 0; at += sizeof(record)) {
				if (record.check == 0 || record.type != KR_JOURNAL_WRITE || record.keep != 0 ||
					record.length > sizeof(data) ||
					kr_pread_full(bytes, data, record.length, record.data))
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
	options.server_instance = meets == SAME_SERVER ? life.server.instance : life.server.instance + 1;
	options.server_boot[0] = meets == REBOOTED_SERVER ? life.server.boot + 1 : life.server.boot;
	err = kr_journal_open(&options, &recovery, &journal);
	if (err) {
		crash_failed(crash, "the journal does not open: %s", strerror(-err));
		return;
	}
	meet(journal, &recovery, meets, content);
	judge(meets, killed, content);
	crash->records += recovery.records;
	crash->doubtful += recovery.doubtful > 0;
	crash->damages += !kr_list_empty(&recovery.damage);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
}

/* After a recovery the node goes on, is killed, and recovers again: what the first had to leave aside must not come
 * back as something else. */
static void look_again(void)
{
	struct crash *crash = life.crash;
	struct kr_journal_options options = life.options;
	struct kr_fid fid = model_fid(FILES);
	struct kr_recovered_file *file;
	struct kr_recovery recovery;
	struct kr_journal *journal;
	struct kr_extent extent;
	uint8_t byte = 7;

	options.directory = crash->state;
	options.node_boot = node_boots[1];
	options.server_instance = life.server.instance + 2;
	options.server_boot[0] = life.server.boot + 1;
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
		if (round == 0 &&
			kr_journal_append(journal, fresh, 5, &byte, 1, (struct kr_time){1, 0}, false, &extent) < 0)
			crash_failed(crash, "the recovered journal takes no write");
		kr_journal_free(journal);
		kr_journal_file_free(fresh);
	}
}

void before_call(void)
{
	struct crash *crash = life.crash;
	enum disk_style style = (enum disk_style)chance(DISK_STYLES);

	if (crash->failure || crash->points >= crash->wanted || !one_in(life.sample))
		return;
	crash_empty(crash->state);
	/* The stores of one call are known by place, not in their order: a kill is looked at between calls only. */
	disk_make(crash->state, style,
		style == DISK_WHOLE ? disk_events() : life.call_began + chance(disk_events() - life.call_began + 1));
	look_at(style, (enum meets)chance(MEETINGS));
	if (style != DISK_WHOLE && !crash->failure && one_in(4))
		look_again();
	crash->points++;
	crash->powers += style != DISK_WHOLE;
}
