#include "server/base/line_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fail.h"
#include "common/base/util.h"

/* The newline in front ends an incomplete line before it. */
void kr_line_log_add(struct kr_writer *lines, const char *format, ...)
{
	char *line, checksum[24];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&line, format, arguments);
	va_end(arguments);
	if (length < 0) {
		lines->failed = true;
		return;
	}
	kr_put_u8(lines, '\n');
	kr_put_bytes(lines, line, (size_t)length);
	length = snprintf(checksum, sizeof(checksum), " %016" PRIx64 "\n", kr_checksum(line, (size_t)length));
	kr_put_bytes(lines, checksum, (size_t)length);
	free(line);
}

int kr_line_log_append(const struct kr_writer *lines, int fd)
{
	ssize_t written;

	if (lines->failed)
		return -ENOMEM;
	written = write(fd, lines->bytes, lines->length);
	if (written < 0)
		return -errno;
	if ((size_t)written < lines->length)
		return -ENOSPC;
	return fdatasync(fd) < 0 ? -errno : 0;
}

int kr_line_log_write(const struct kr_writer *lines, int dir, const char *name)
{
	return lines->failed ?
		-ENOMEM :
		kr_write_file(dir, name, lines->length ? (const char *)lines->bytes : "", lines->length, 0600);
}

/* Cuts LINE before its checksum. The lines of former versions' `conflicts` are JSON objects without one. */
static bool is_whole(char *line)
{
	char *space = strrchr(line, ' '), expected[17];

	if (line[0] == '{' && line[strlen(line) - 1] == '}')
		return true;
	if (!space)
		return false;
	*space = '\0';
	snprintf(expected, sizeof(expected), "%016" PRIx64, kr_checksum(line, strlen(line)));
	return strcmp(space + 1, expected) == 0;
}

size_t kr_line_log_parse(char *text, size_t length, void (*fn)(void *context, char *line), void *context)
{
	size_t damaged = 0;
	char *line, *rest;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0')
			text[i] = '\n';
	}
	for (rest = text; (line = strsep(&rest, "\n"));) {
		if (line[0] && is_whole(line))
			fn(context, line);
		else
			damaged += line[0] != '\0';
	}
	return damaged;
}

/* The last KR_LINE_LOG_MAX bytes of DIR/NAME, and a 0. */
static int read_end(int dir, const char *name, char **ret_text, size_t *ret_length)
{
	KR_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	KR_AUTO_FREE char *text = NULL;
	struct stat stat;
	size_t length = 0, max;
	ssize_t got;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	max = (size_t)KR_MIN(stat.st_size, KR_LINE_LOG_MAX);
	text = malloc(max + 1);
	if (!text)
		return -ENOMEM;
	while (length < max && (got = pread(fd, text + length, max - length, stat.st_size - (off_t)(max - length)))) {
		if (got < 0)
			return -errno;
		length += (size_t)got;
	}
	text[length] = '\0';
	*ret_text = text;
	text = NULL;
	*ret_length = length;
	return 0;
}

int kr_line_log_read(
	int dir, const char *name, void (*fn)(void *context, char *line), void *context, size_t *ret_damaged)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length = 0, damaged = 0;
	int err = read_end(dir, name, &text, &length);

	if (err && err != -ENOENT)
		return kr_fail_errno(err, "cannot read %s of the state directory", name);
	if (!err)
		damaged = kr_line_log_parse(text, length, fn, context);
	if (ret_damaged)
		*ret_damaged = damaged;
	return 0;
}
