#include "server/base/last_stat.h"

#include "common/base/util.h"

static uint64_t time_ns(struct kr_time t)
{
	return (uint64_t)t.sec * KR_NS_PER_S + t.nsec;
}

bool kr_last_stat_changed(
	struct kr_last_stat *seen, const struct kr_attr *attr, uint64_t changes, bool told, uint64_t now_ns)
{
	/* A ctime from the future (after a change of the clock) stays young until then. */
	bool young = !told && time_ns(attr->ctime) + KR_LAST_STAT_SETTLE_NS > now_ns;
	bool comparable = seen->known && seen->changes == changes;
	bool same = comparable && kr_time_compare(seen->ctime, attr->ctime) == 0 && seen->size == attr->size;
	bool changed = comparable && (!same || (seen->doubtful && !young));

	if (same && seen->doubtful && young)
		return false; /* not settled yet */
	*seen = (struct kr_last_stat){
		.known = true, .doubtful = young, .changes = changes, .ctime = attr->ctime, .size = attr->size};
	return changed;
}

bool kr_last_stat_recent(const struct kr_last_stat *seen, uint64_t now_ns)
{
	return seen->known && time_ns(seen->ctime) + KR_LAST_STAT_RECENT_NS > now_ns;
}

static bool is_good(const struct kr_carried *carried, uint64_t changes, uint64_t size)
{
	return carried->valid && carried->changes == changes && carried->size == size;
}

void kr_carried_note(
	struct kr_carried *carried, const struct kr_attr *before, const struct kr_attr *after, uint64_t changes)
{
	if (before->size != after->size || kr_time_compare(before->mtime, after->mtime) != 0) {
		carried->valid = false;
		return;
	}
	if (kr_time_compare(before->ctime, after->ctime) == 0)
		return;
	if (is_good(carried, changes, after->size)) {
		if (kr_time_compare(carried->shown, after->ctime) == 0) {
			if (kr_time_compare(before->ctime, carried->bytes) < 0)
				carried->bytes = before->ctime;
			return;
		}
		if (kr_time_compare(carried->shown, before->ctime) == 0) {
			carried->shown = after->ctime;
			return;
		}
		if (kr_time_compare(carried->bytes, after->ctime) == 0) {
			carried->bytes = before->ctime;
			return;
		}
	}
	*carried = (struct kr_carried){
		.valid = true, .changes = changes, .size = after->size, .bytes = before->ctime, .shown = after->ctime};
}

void kr_carried_apply(const struct kr_carried *carried, uint64_t changes, struct kr_attr *attr)
{
	if (is_good(carried, changes, attr->size) && kr_time_compare(carried->shown, attr->ctime) == 0)
		attr->ctime = carried->bytes;
}
