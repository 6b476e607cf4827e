/* See flush_goal.h. */
#include "tools/flush_goal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"

struct kr_flush_goal {
	json_t *written; /* by file: the last write at the beginning */
	json_int_t conflict_files;
};

struct kr_flush_goal *kr_flush_goal_new(const json_t *status)
{
	struct kr_flush_goal *goal = kr_xcalloc(1, sizeof(*goal));
	const json_t *file;
	size_t i;

	goal->written = json_object();
	goal->conflict_files = kr_number(status, NULL, "conflict_files");
	json_array_foreach(json_object_get(status, "files"), i, file) json_object_set_new(
		goal->written, kr_text_of(file, "fid"), json_integer(kr_number(file, NULL, "written")));
	return goal;
}

void kr_flush_goal_free(struct kr_flush_goal *goal)
{
	if (!goal)
		return;
	json_decref(goal->written);
	free(goal);
}

bool kr_flush_goal_has(const struct kr_flush_goal *goal, const json_t *status, const json_t *file)
{
	const json_t *written = json_object_get(goal->written, kr_text_of(file, "fid"));

	if (strcmp(kr_text_of(file, "state"), "conflict") == 0)
		return true;
	if (!written) /* late bytes have moved to a conflict file: a new file may be that one */
		return kr_number(status, NULL, "conflict_files") != goal->conflict_files;
	return kr_number(file, NULL, "safe") < json_integer_value(written);
}
