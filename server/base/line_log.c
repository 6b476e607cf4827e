#include "server/base/line_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fail.h"
#include "common/base/util.h"

/* The newline in front ends an incomplete line before it. */
void kr_line_log_add(struct kr_line_log *lines, const char *line)
{
	char whole[KR_LINE_MAX + 24];
	size_t length =
		(size_t)snprintf(whole, sizeof(whole), "\n%s %016" PRIx64 "\n", line, kr_checksum(line, strlen(line)));

	if (lines->length + length > lines->capacity) {
		size_t capacity = KR_MAX(2 * lines->capacity, lines->length + length + 1024);
		char *larger = realloc(lines->bytes, capacity);

		lines->failed |= !larger;
		if (!larger)
			return;
		lines->bytes = larger;
		lines->capacity = capacity;
	}
	memcpy(lines->bytes + lines->length, whole, length);
	lines->length += length;
}

int kr_line_log_append(const struct kr_line_log *lines, int fd)
{
	ssize_t written;

	if (lines->failed)
		return -ENOMEM;
	written = write(fd, lines->bytes, lines->length);
	if (written < 0)
		return -errno;
	return (size_t)written < lines->length ? -ENOSPC : 0;
}

/* Cuts LINE before its checksum. */
static bool is_whole(char *line)
{
	char *space = strrchr(line, ' '), expected[17];

	if (!space)
		return false;
	*space = '\0';
	snprintf(expected, sizeof(expected), "%016" PRIx64, kr_checksum(line, strlen(line)));
	return strcmp(space + 1, expected) == 0;
}

int kr_line_log_read(int dir, const char *name, size_t limit, void (*fn)(void *context, char *line), void *context)
{
	KR_AUTO_FREE char *text = NULL;
	char *line, *rest;
	size_t length;
	int err = kr_read_file(dir, name, limit, &text, &length);

	if (err)
		return err == -ENOENT ? 0 : kr_fail_errno(err, "cannot read %s of the state directory", name);
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0')
			text[i] = '\n';
	}
	for (rest = text; (line = strsep(&rest, "\n"));) {
		if (is_whole(line))
			fn(context, line);
	}
	return 0;
}
