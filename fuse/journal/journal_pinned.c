/* Which sound segments have to stay because of a NAME.
 *
 * Every segment names the files whose writes it has.  Such a NAME may be damaged, or marked dead (which no writer
 * does).  Then the file can still be known from another segment's NAME of it.  That segment has to stay as long as the
 * first one does, also when none of its own writes is needed any more.  Without it the next start would find bytes that
 * belong to no file.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_scan.h"

struct naming {
	uint32_t file, segment;
};

static int compare_namings(const void *a, const void *b)
{
	const struct naming *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/* Where good NAMEs are, ascending; the last one has no file. */
static int find_namings(const struct kr_scan *scan, struct naming **ret_namings, size_t *ret_count)
{
	struct naming *namings = calloc(scan->ref_count + 1, sizeof(*namings));
	size_t count = 0;

	if (!namings)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (size_t i = 0; i < scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind != KR_SCAN_GOOD)
			continue;
		kr_scan_record(scan, ref, &record, &kept);
		if (record.type == KR_JOURNAL_NAME)
			namings[count++] = (struct naming){record.file, ref->segment};
	}
	qsort(namings, count, sizeof(*namings), compare_namings);
	*ret_namings = namings;
	*ret_count = count;
	return 0;
}

/* The first one of FILE; that in SEGMENT, if there is one. NULL: none. */
static const struct naming *find_naming(const struct naming *namings, size_t count, uint32_t file, uint32_t segment)
{
	const struct naming wanted = {file, segment};
	const struct naming *found = bsearch(&wanted, namings, count, sizeof(wanted), compare_namings);
	size_t low = 0, high = count;

	if (found)
		return found;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (namings[middle].file < file)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && namings[low].file == file ? &namings[low] : NULL;
}

int kr_journal_find_pinned(const struct kr_scan *scan, struct kr_segment *const *segments)
{
	KR_AUTO_FREE struct naming *namings = NULL;
	size_t count = 0;
	int err = find_namings(scan, &namings, &count);

	for (size_t i = 0; i < scan->ref_count && err == 0; i++) {
		const struct kr_scan_ref *ref = &scan->refs[i];
		const struct naming *naming;
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind == KR_SCAN_BAD_RECORD ||
			(ref->kind == KR_SCAN_DEAD && !scan->segments[ref->segment].damaged))
			continue;
		kr_scan_record(scan, ref, &record, &kept);
		naming = find_naming(namings, count, record.file, ref->segment);
		if (naming && naming->segment != ref->segment)
			segments[naming->segment]->lends_name = true;
	}
	return err;
}
