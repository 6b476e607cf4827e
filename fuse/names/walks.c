/* See walks.h. */
#include "fuse/names/walks.h"

#include "common/base/util.h"

static struct kr_walk *find(struct kr_walks *walks, uint64_t place)
{
	struct kr_walk *walk;

	for (uint32_t i = 0; i < KR_WALKS; i++) {
		if (walks->walks[i].until && walks->walks[i].place == place)
			return &walks->walks[i];
	}
	walk = &walks->walks[walks->next];
	walks->next = (walks->next + 1) % KR_WALKS;
	*walk = (struct kr_walk){.place = place, .until = KR_WALKS_FIRST};
	return walk;
}

bool kr_walks_found(struct kr_walks *walks, uint64_t place)
{
	struct kr_walk *walk = find(walks, place);

	if (++walk->found < walk->until)
		return false;
	walk->found = 0;
	walk->until = KR_MIN(walk->until * KR_WALKS_GROWTH, (uint32_t)KR_WALKS_LAST);
	return true;
}
