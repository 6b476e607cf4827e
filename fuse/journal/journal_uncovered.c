/* See journal_uncovered.h. */
#include "fuse/journal/journal_uncovered.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/hex.h"
#include "common/base/util.h"
#include "fuse/journal/journal_recover_priv.h"

enum { TEXT_MAX = 128 << 20, ROOM = 1 << 20 };

/* --- the text --------------------------------------------------------------------------------- */

size_t kr_uncovered_format(const struct kr_uncovered *uncovered, char line[KR_UNCOVERED_LINE_MAX])
{
	char fid[2 * KR_FID_MAX + 1];

	kr_hex_format(uncovered->fid.bytes, uncovered->fid.length, fid);
	return (size_t)snprintf(line, KR_UNCOVERED_LINE_MAX, "%s %" PRId64 ".%09" PRIu32 " %" PRIu64 "\n", fid,
		uncovered->since.sec, uncovered->since.nsec, uncovered->up_to);
}

int kr_uncovered_next(const char **rest, struct kr_uncovered *ret_uncovered)
{
	const char *line = *rest, *end = strchr(line, '\n');
	char fid[2 * KR_FID_MAX + 1], copy[KR_UNCOVERED_LINE_MAX], same[KR_UNCOVERED_LINE_MAX];
	struct kr_uncovered uncovered = {0};
	size_t length;

	if (!*line)
		return -ENODATA;
	*rest = end ? end + 1 : line + strlen(line);
	length = (size_t)(*rest - line);
	if (!end || length >= sizeof(copy))
		return -EBADMSG;
	memcpy(copy, line, length);
	copy[length] = '\0';
	static_assert(KR_FID_MAX == 152, "the width of the first field");
	if (sscanf(copy, "%304[0-9a-f] %" SCNd64 ".%9" SCNu32 " %" SCNu64, fid, &uncovered.since.sec,
		    &uncovered.since.nsec, &uncovered.up_to) != 4)
		return -EBADMSG;
	uncovered.fid.length = (uint8_t)kr_hex_parse(fid, uncovered.fid.bytes, KR_FID_MAX);
	/* As we write it, to the last byte. */
	if (uncovered.fid.length == 0 || kr_uncovered_format(&uncovered, same) != length ||
		memcmp(same, copy, length) != 0)
		return -EBADMSG;
	*ret_uncovered = uncovered;
	return 0;
}

int kr_uncovered_read(int dir_fd, char **ret_text, const char **ret_lines)
{
	const size_t head = strlen(KR_UNCOVERED_HEAD);
	size_t length = 0;
	int err = kr_read_file(dir_fd, KR_JOURNAL_UNCOVERED, TEXT_MAX, ret_text, &length);

	if (err)
		return err;
	*ret_lines = *ret_text + head;
	return strlen(*ret_text) == length && strncmp(*ret_text, KR_UNCOVERED_HEAD, head) == 0 ? 0 : -EBADMSG;
}

/* --- on the disk ------------------------------------------------------------------------------ */

static int remove_it(const struct kr_journal *journal)
{
	if (unlinkat(journal->dir_fd, KR_JOURNAL_UNCOVERED, 0) < 0)
		return errno == ENOENT ? 0 : kr_fail_errno(-errno, "cannot remove %s", KR_JOURNAL_UNCOVERED);
	return fsync(journal->dir_fd) < 0 ? kr_fail_errno(-errno, "cannot sync the journal's directory") : 0;
}

/* It is the bytes that wait here, as a rule, that fill the disk.  The text that is replaced stays until the new one is
 * there, and others take room meanwhile. */
static bool make_room(struct kr_journal *journal, size_t length)
{
	const struct kr_journal_options *options = &journal->options;
	const bool reclaimed = kr_journal_reclaim(journal, true);

	return (options->make_room && options->make_room(options->context, length + ROOM)) || reclaimed;
}

int kr_journal_write_uncovered(struct kr_journal *journal, const char *text, size_t length)
{
	int err = KR_FAULT("journal.uncovered");

	if (err)
		return kr_fail_errno(err, "cannot write %s", KR_JOURNAL_UNCOVERED);
	if (length == 0)
		return remove_it(journal);
	err = kr_write_file(journal->dir_fd, KR_JOURNAL_UNCOVERED, text, length, 0600);
	if ((err == -ENOSPC || err == -EDQUOT) && make_room(journal, length))
		err = kr_write_file(journal->dir_fd, KR_JOURNAL_UNCOVERED, text, length, 0600);
	(void)KR_FAULT("journal.uncovered.written");
	return err;
}

/* --- the recovery ----------------------------------------------------------------------------- */

static void take_line(const struct kr_rebuild *r, const struct kr_uncovered *uncovered)
{
	struct kr_rebuilt *rebuilt = kr_rebuilt_find(r, &uncovered->fid);

	if (rebuilt && kr_extent_map_seq_until(&rebuilt->file->dirty, uncovered->up_to) != 0)
		rebuilt->file->uncovered = *uncovered;
}

/* It may have spoken of any file: each is judged by its last write. */
static void take_all(struct kr_recovery *recovery)
{
	struct kr_recovered_file *file;

	KR_LIST_FOR_EACH(file, &recovery->files, link)
		if (!file->uncovered.up_to && !kr_extent_map_empty(&file->dirty))
			file->uncovered = (struct kr_uncovered){
				.fid = file->file->fid, .since = file->mtime, .up_to = file->max_seq};
}

static bool take_lines(const struct kr_rebuild *r, const char *rest)
{
	struct kr_uncovered uncovered;
	int err;

	while ((err = kr_uncovered_next(&rest, &uncovered)) == 0)
		take_line(r, &uncovered);
	return err == -ENODATA;
}

static void note_damage(struct kr_recovery *recovery, const char *why)
{
	struct kr_journal_damage *damage = calloc(1, sizeof(*damage));

	if (!damage)
		return;
	if (asprintf(&damage->text,
		    "'%s' %s: it may have spoken of any file, so unflushed bytes are late wherever others have "
		    "changed a file since its last write here",
		    KR_JOURNAL_UNCOVERED, why) < 0)
		damage->text = kr_xstrdup("damage");
	kr_list_append(&recovery->damage, &damage->link);
}

void kr_reopen_uncovered(struct kr_rebuild *r)
{
	KR_AUTO_FREE char *text = NULL;
	const char *lines;
	int err = kr_uncovered_read(r->journal->dir_fd, &text, &lines);

	if (err == -ENOENT)
		return;
	r->recovery->uncovered = true;
	if (err == 0 && take_lines(r, lines))
		return;
	note_damage(r->recovery, err && err != -EBADMSG ? "cannot be read" : "is damaged");
	take_all(r->recovery);
}
