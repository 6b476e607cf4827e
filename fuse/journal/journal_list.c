/* What a journal holds, for people: the listing and the check of `kairan journal`. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "fuse/journal/journal_scan.h"
#include "fuse/journal/journal_uncovered.h"

static const char *kind_text(enum kr_scan_kind kind)
{
	switch (kind) {
	case KR_SCAN_EMPTY:
		return "empty";
	case KR_SCAN_DEAD:
		return "dead";
	case KR_SCAN_GOOD:
		return "live";
	case KR_SCAN_BAD_RECORD:
		return "DAMAGED RECORD";
	case KR_SCAN_BAD_DATA:
		return "DAMAGED";
	}
	return "?";
}

/* Names may hold any bytes; a terminal should not see control characters. */
static void print_name(const struct kr_scan *scan, uint32_t number, FILE *out)
{
	const struct kr_scan_name *name = kr_scan_name(scan, number);

	fprintf(out, " file %u", number);
	if (!name || !*name->hint)
		return;
	fputc(' ', out);
	for (const char *c = name->hint; *c; c++)
		fputc((unsigned char)*c < 32 || *c == 127 ? '?' : *c, out);
}

static void print_ref(const struct kr_scan *scan, const struct kr_scan_ref *ref, FILE *out)
{
	struct kr_journal_record record;
	uint32_t kept;

	kr_scan_record(scan, ref, &record, &kept);
	fprintf(out, "  %08x:%-6u %-8s seq %" PRIu64, scan->segments[ref->segment].pair, ref->slot,
		kind_text(ref->kind), ref->seq);
	if (ref->kind == KR_SCAN_BAD_RECORD) {
		fputc('\n', out);
		return;
	}
	switch (record.type) {
	case KR_JOURNAL_NAME:
		fprintf(out, " NAME   ");
		print_name(scan, record.file, out);
		break;
	case KR_JOURNAL_WRITE:
		fprintf(out, " WRITE  ");
		print_name(scan, record.file, out);
		fprintf(out, " offset %" PRIu64 " length %u", record.offset, record.length);
		if (ref->kind == KR_SCAN_GOOD && kept != record.length)
			fprintf(out, " (cut to %u)", kept);
		break;
	default:
		break;
	}
	fputc('\n', out);
}

static void print_segment(const struct kr_scan_segment *segment, FILE *out)
{
	fprintf(out, "segment %08x: number %" PRIu64 ", %u of %u records used, %" PRIu64 " bytes of data%s\n",
		segment->pair, segment->header.number, segment->used, segment->header.slots, segment->data_length,
		segment->data_fd < 0 ? " (MISSING)" : "");
}

void kr_scan_dump(const struct kr_scan *scan, bool all, FILE *out)
{
	for (uint32_t i = 0; i < scan->segment_count; i++)
		print_segment(&scan->segments[i], out);
	for (size_t i = 0; i < scan->ref_count; i++)
		if (all || scan->refs[i].kind != KR_SCAN_DEAD)
			print_ref(scan, &scan->refs[i], out);
}

/* The live records of one file. */
struct tally {
	uint64_t records, bytes, end;
};

/* By the index in scan->names; owned. */
static struct tally *tally_files(const struct kr_scan *scan)
{
	struct tally *tallies = kr_xcalloc(scan->name_count + 1, sizeof(*tallies));

	for (size_t i = 0; i < scan->ref_count; i++) {
		const struct kr_scan_name *name;
		struct kr_journal_record record;
		struct tally *tally;
		uint32_t kept;

		kr_scan_record(scan, &scan->refs[i], &record, &kept);
		name = kr_scan_name(scan, record.file);
		if (scan->refs[i].kind != KR_SCAN_GOOD || record.type == KR_JOURNAL_NAME || !name)
			continue;
		tally = &tallies[name - scan->names];
		tally->records++;
		tally->bytes += kept;
		tally->end = KR_MAX(tally->end, record.offset + kept);
	}
	return tallies;
}

static void print_files(const struct kr_scan *scan, FILE *out)
{
	struct tally *tallies = tally_files(scan);

	for (size_t i = 0; i < scan->name_count; i++) {
		const struct tally *tally = &tallies[i];

		if (tally->records == 0)
			continue;
		fputs("not known to be durable at the server:", out);
		print_name(scan, scan->names[i].number, out);
		fprintf(out, ": %" PRIu64 " byte%s in %" PRIu64 " write%s, up to offset %" PRIu64 "\n", tally->bytes,
			KR_S(tally->bytes), tally->records, KR_S(tally->records), tally->end);
	}
	free(tallies);
}

static void print_refused(const struct kr_scan *scan, const struct kr_uncovered *uncovered, FILE *out)
{
	for (size_t i = 0; i < scan->name_count; i++) {
		if (!kr_fid_equal(&scan->names[i].fid, &uncovered->fid))
			continue;
		fputs("refused by the server, and others may have changed it since:", out);
		print_name(scan, scan->names[i].number, out);
		fputc('\n', out);
		return;
	}
}

/* Returns whether it is undamaged. */
static bool print_uncovered(const struct kr_scan *scan, FILE *out)
{
	KR_AUTO_FREE char *text = NULL;
	struct kr_uncovered uncovered;
	const char *lines;
	int err = kr_uncovered_read(scan->dir_fd, &text, &lines);

	if (err == -ENOENT)
		return true;
	while (err == 0 && (err = kr_uncovered_next(&lines, &uncovered)) == 0)
		print_refused(scan, &uncovered, out);
	if (err == -ENODATA)
		return true;
	fprintf(out, "'%s' %s: whatever others have changed since its last write here is taken for changed by them\n",
		KR_JOURNAL_UNCOVERED, err == -EBADMSG ? "is damaged" : "cannot be read");
	return false;
}

bool kr_scan_verify(const struct kr_scan *scan, FILE *out)
{
	const struct kr_journal_damage *damage;
	bool sound;

	print_files(scan, out);
	sound = print_uncovered(scan, out);
	if (scan->unfinished)
		fprintf(out, "%" PRIu64 " write%s had not ended when the daemon did\n", scan->unfinished,
			KR_S(scan->unfinished));
	if (scan->repaired)
		fprintf(out, "%" PRIu64 " record%s one wrong bit, which is seen through\n", scan->repaired,
			scan->repaired == 1 ? " has" : "s have");
	KR_LIST_FOR_EACH(damage, &scan->damage, link) {
		fprintf(out, "%s\n", damage->text);
		sound &= damage->torn_tail;
	}
	fprintf(out, "%s\n", sound ? "the journal is sound" : "the journal is DAMAGED: see above");
	return sound;
}
