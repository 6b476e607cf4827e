/* Looking at what a crash could have left of a journal: the real recovery opens it, what a mount would send to the
 * server then is put together as fuse/writeback/recovery.c does, and the bytes are judged (see journal.c). */
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

struct sending {
	struct kr_journal *journal;
	int file;
	uint64_t from, last;
	uint32_t cells[CELLS];
};

static void send_piece(void *context, const struct kr_extent *piece)
{
	struct sending *sending = context;
	struct cell cells[CELLS];
	int err;

	if (piece->offset % CELL || piece->length % CELL || piece->offset + piece->length > sizeof(cells)) {
		crash_failed(life.crash, "an extent at %llu of %llu bytes, which nobody wrote",
			(unsigned long long)piece->offset, (unsigned long long)piece->length);
		return;
	}
	err = kr_journal_read_verified(sending->journal, piece->position, cells, piece->length);
	if (err) {
		crash_failed(life.crash, "recovered bytes cannot be read: %s", strerror(-err));
		return;
	}
	for (uint32_t i = 0; i < piece->length / CELL; i++) {
		uint32_t number = (uint32_t)(piece->offset / CELL) + i;

		if (!cell_is_sound(&cells[i], sending->file, number))
			crash_failed(life.crash, "file %d, cell %u: recovered bytes that nobody wrote there",
				sending->file, number);
		if (piece->seq > sending->from)
			sending->cells[number] = cells[i].write;
	}
	sending->last = KR_MAX(sending->last, piece->seq);
}

void send_map(
	struct kr_journal *journal, int file, const struct kr_extent_map *map, uint64_t from, struct model *server)
{
	struct sending sending = {.journal = journal, .file = file, .from = from};

	kr_extent_map_for_each(map, send_piece, &sending);
	if (sending.last > from)
		model_apply(server, file, sending.cells, sending.last);
}

enum meets { SAME_SERVER, RESTARTED_SERVER, REBOOTED_SERVER, MEETINGS };
static const char *const meets_text[] = {"the same server", "a restarted server", "a server that lost power too"};

/* RECLAIM, flush.  A late node's bytes go in only if nobody has changed the file since the oldest of them, that this
 * instance did not know to be the node's. */
static void meet(struct kr_journal *journal, const struct kr_recovery *recovery, struct model *server)
{
	const struct kr_recovered_file *file;

	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		const struct kr_time *since = life.crash->broken == BROKEN_SINCE ? &file->mtime : &file->first_mtime;
		int index = index_of(&file->file->fid);

		if (index < 0 || index >= FILES) {
			crash_failed(life.crash, "a file that there never was");
			return;
		}
		if (!recovery->power_lost || server->files[index].foreign <= (uint64_t)since->sec)
			send_map(journal, index, &file->dirty, server->files[index].applied_seq, server);
	}
}

/* No byte may be older than the server, as it was BEFORE, has promised; after a mere kill none may be missing. */
static void judge(enum meets meets, bool killed, const struct model *before, const struct model *after)
{
	for (int i = 0; i < FILES; i++) {
		for (uint32_t c = 0; c < CELLS; c++) {
			uint32_t promised = before->files[i].promised[c];
			uint32_t least = killed ? KR_MAX(promised, life.own[i][c]) : promised;

			if (after->files[i].content[c] < least)
				crash_failed(life.crash, "%s, %s: file %d, cell %u has write %u where %u was",
					meets_text[meets], killed ? "the daemon was killed" : "the node lost power", i,
					c, after->files[i].content[c], least);
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
	struct model before = life.server, after;
	struct kr_recovery recovery;
	struct kr_journal *journal;
	int err;

	if (crash->broken == BROKEN_CHECKSUM)
		forge(crash->state);
	if (crash->broken == BROKEN_TAIL && killed)
		lose_tail(crash->state);
	if (meets != SAME_SERVER)
		model_restart(&before, meets == REBOOTED_SERVER);
	options.directory = crash->state;
	options.incarnation = life.incarnation + 1;
	options.node_boot = node_boots[killed || crash->broken == BROKEN_POWER ? 0 : 1];
	err = kr_journal_open(&options, &recovery, &journal);
	if (err) {
		crash_failed(crash, "the journal does not open: %s", strerror(-err));
		return;
	}
	if (killed && recovery.power_lost)
		crash_failed(crash, "a killed daemon is taken for a loss of power");
	after = before;
	meet(journal, &recovery, &after);
	judge(meets, killed, &before, &after);
	crash->records += recovery.records;
	crash->lates += recovery.power_lost;
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
	struct kr_fid fid = fid_of(FILES);
	struct kr_recovered_file *file;
	struct kr_recovery recovery;
	struct kr_journal *journal;
	struct kr_extent extent;
	uint8_t byte = 7;

	options.directory = crash->state;
	options.node_boot = node_boots[1];
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
		if (round == 1 && recovery.power_lost)
			crash_failed(crash, "a loss of power that was settled is not");
		kr_recovery_fini(&recovery);
		kr_journal_power_settled(journal);
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
