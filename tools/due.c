/* See due.h. */
#include "tools/due.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"

struct kr_due {
	json_t *written; /* by file: the last write then */
	json_int_t conflict_files;
};

/* Daemons of before do not tell: then all that a file has counts. */
static json_int_t number_of(const json_t *file, const char *name, json_int_t otherwise)
{
	const json_t *number = json_object_get(file, name);

	return json_is_integer(number) ? json_integer_value(number) : otherwise;
}

struct kr_due *kr_due_new(const json_t *status)
{
	struct kr_due *due = kr_xcalloc(1, sizeof(*due));
	const json_t *file;
	size_t i;

	due->written = json_object();
	due->conflict_files = number_of(status, "conflict_files", 0);
	json_array_foreach(json_object_get(status, "files"), i, file) json_object_set_new(
		due->written, kr_text_of(file, "fid"), json_integer(number_of(file, "written", INT64_MAX)));
	return due;
}

void kr_due_free(struct kr_due *due)
{
	if (!due)
		return;
	json_decref(due->written);
	free(due);
}

bool kr_due_has(const struct kr_due *due, const json_t *status, const json_t *file)
{
	const json_t *written = json_object_get(due->written, kr_text_of(file, "fid"));

	if (strcmp(kr_text_of(file, "state"), "conflict") == 0)
		return true;
	if (!written) /* late bytes have moved to another file: what is new may have them */
		return number_of(status, "conflict_files", 0) != due->conflict_files;
	return number_of(file, "safe", -1) < json_integer_value(written);
}
