/* Rounds that the server has applied, in the journal: their APPLIED records, and the order in which they go.
 *
 * Loop thread, as everything about a file's applied rounds.  A round keeps the record of its first application until it
 * is stable, also when a boot of the server has had it replayed.  The order of the rounds of all nodes is that of their
 * first applications.  This holds however many of them a server had applied anew when its power failed again.
 */
#include <stdlib.h>
#include <string.h>

#include "fuse/journal/journal.h"

void kr_journal_note_applied(struct kr_journal *journal, struct kr_journal_file *file, struct kr_applied *applied,
	uint64_t round, const uint8_t boot_id[16])
{
	static const uint8_t no_boot[16];
	uint64_t mark;

	if (applied->order && !applied->order_mark) /* its records were void: its order, first */
		applied->order_mark = kr_journal_applied(journal, file, applied->up_to, applied->order, no_boot);
	applied->lost = false;
	mark = kr_journal_applied(journal, file, applied->up_to, round, boot_id);
	applied->round = round;
	memcpy(applied->boot_id, boot_id, 16);
	if (!applied->order) {
		applied->order = round;
		applied->order_mark = mark;
	}
	if (!mark) /* after a crash it is replayed once more, in its order */
		return;
	if (applied->mark != applied->order_mark)
		kr_journal_release_mark(journal, applied->mark);
	applied->mark = mark;
}

void kr_journal_void_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	if (applied->order_mark != applied->mark)
		kr_journal_release_mark(journal, applied->order_mark);
	kr_journal_release_mark(journal, applied->mark);
	applied->mark = applied->order_mark = 0;
}

void kr_journal_lose_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	kr_journal_void_applied(journal, applied);
	applied->lost = true;
}

/* The record of its order is that of a former boot, or of none: it says what is to be. What has no other than that of
 * the present one counts with the next round. */
void kr_journal_unapply(struct kr_journal *journal, struct kr_applied *applied)
{
	if (applied->mark != applied->order_mark) {
		kr_journal_release_mark(journal, applied->mark);
		applied->mark = applied->order_mark;
	} else if (applied->round == applied->order) {
		kr_journal_void_applied(journal, applied);
	}
	applied->lost = false;
	applied->round = applied->order;
	memset(applied->boot_id, 0, 16);
}

void kr_journal_drop_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	kr_list_remove(&applied->link);
	kr_journal_release_map(journal, &applied->extents);
	kr_journal_void_applied(journal, applied);
	free(applied);
}

void kr_journal_stable(struct kr_journal *journal, struct kr_list *list, uint64_t round, const uint8_t boot_id[16])
{
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(applied, next, list, link)
		if (!applied->lost && applied->round <= round && memcmp(applied->boot_id, boot_id, 16) == 0)
			kr_journal_drop_applied(journal, applied);
}
