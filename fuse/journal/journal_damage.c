/* What a reader of the journal says is wrong with it (see journal_read.h). */
#include "fuse/journal/journal_read_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

struct kr_journal_damage *kr_scan_add_damage(struct kr_scan *scan, const char *format, ...)
{
	struct kr_journal_damage *damage = kr_xcalloc(1, sizeof(*damage));
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&damage->text, format, arguments) < 0)
		damage->text = kr_xstrdup("damage");
	va_end(arguments);
	kr_list_append(&scan->damage, &damage->link);
	return damage;
}

void kr_journal_damage_free(struct kr_list *list)
{
	struct kr_link *link;

	while ((link = kr_list_pop(list))) {
		struct kr_journal_damage *damage = KR_LIST_ENTRY(link, struct kr_journal_damage, link);

		free(damage->text);
		free(damage);
	}
}

static const char *file_text(const struct kr_scan *scan, uint32_t number, char *buffer, size_t size)
{
	const struct kr_scan_name *name = kr_scan_name(scan, number);

	if (name && *name->hint)
		snprintf(buffer, size, "%s", name->hint);
	else
		snprintf(buffer, size, "file %u%s", number, name ? "" : " (which nothing names)");
	return buffer;
}

/* Behind the last sound record of the newest segment: what a crash leaves. */
static bool is_tail(const struct kr_scan *scan, const struct kr_scan_ref *ref)
{
	return ref->segment == scan->newest && ref->slot >= scan->segments[ref->segment].last_sound;
}

void kr_scan_report(struct kr_scan *scan, const struct kr_scan_ref *ref)
{
	struct kr_scan_segment *segment = &scan->segments[ref->segment];
	bool tail = is_tail(scan, ref);
	const char *what = tail ? "torn tail" : "damage";
	struct kr_journal_damage *damage;
	struct kr_journal_record record;
	char file[512];
	uint32_t kept;

	kr_scan_record(scan, ref, &record, &kept);
	file_text(scan, record.file, file, sizeof(file));
	if (ref->kind == KR_SCAN_BAD_RECORD) {
		damage = kr_scan_add_damage(scan,
			"%s in segment %08x, record %u: unreadable (perhaps %s, offset %" PRIu64 ", %u bytes)", what,
			segment->pair, ref->slot, file, record.offset, record.length);
	} else if (record.type == KR_JOURNAL_WRITE) {
		const struct kr_scan_name *name = kr_scan_name(scan, record.file);

		damage = kr_scan_add_damage(scan, "%s in segment %08x, record %u: %s, bytes %" PRIu64 " to %" PRIu64,
			what, segment->pair, ref->slot, file, record.offset, record.offset + record.length);
		if (name)
			damage->fid = name->fid;
		damage->offset = record.offset;
		damage->length = record.length;
	} else {
		damage = kr_scan_add_damage(scan, "%s in segment %08x, record %u: %s of file %u", what, segment->pair,
			ref->slot, record.type == KR_JOURNAL_NAME ? "the name" : "a state", record.file);
	}
	damage->torn_tail = tail;
	if (!tail)
		segment->damaged = true;
}
