/* See walk_detector.h. */
#include "fuse/names/walk_detector.h"

#include "common/base/util.h"

static struct kr_walk *find(struct kr_walk_detector *walks, uint64_t place)
{
	struct kr_walk *walk;

	for (uint32_t i = 0; i < KR_WALK_DETECTOR; i++) {
		if (walks->walks[i].until && walks->walks[i].place == place)
			return &walks->walks[i];
	}
	walk = &walks->walks[walks->next];
	walks->next = (walks->next + 1) % KR_WALK_DETECTOR;
	*walk = (struct kr_walk){.place = place, .until = KR_WALK_DETECTOR_FIRST};
	return walk;
}

bool kr_walk_detector_asked(struct kr_walk_detector *walks, uint64_t place)
{
	struct kr_walk *walk = find(walks, place);

	if (++walk->asked < walk->until)
		return false;
	walk->asked = 0;
	walk->until = KR_MIN(walk->until * KR_WALK_DETECTOR_GROWTH, (uint32_t)KR_WALK_DETECTOR_LAST);
	return true;
}
