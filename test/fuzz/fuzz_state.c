/* Fuzz target: the logs of the server's state directory.
 *
 * Byte 0 of the input chooses: the rest is a log as it is on the disk, or lines that get right checksums.  Whatever a
 * log holds, a server starts with it; what it writes in its place has no invalid line and says the same. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/line_log.h"
#include "server/base/doubtful_times.h"
#include "server/base/fid_aliases.h"
#include "server/recovery/clock_setbacks.h"
#include "server/recovery/conflict_log.h"
#include "server/recovery/state_dump.h"
#include "test/fuzz/fuzz.h"

static int dir;
static char where[64];
static const char *const logs[] = {"clock", "doubts", "aliases", "conflicts"};

static void away(void)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(logs); i++)
		unlinkat(dir, logs[i], 0);
	unlinkat(dir, "nodes", AT_REMOVEDIR);
	close(dir);
	rmdir(where);
}

static void make_directory(void)
{
	char path[] = "/dev/shm/kr-fuzz-state-XXXXXX";

	assert(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(dir >= 0 && mkdirat(dir, "nodes", 0700) == 0);
	snprintf(where, sizeof(where), "%s", path);
	kr_log_init("fuzz_state", KR_LOG_ERROR + 1);
	atexit(away);
}

static void add_lines(struct kr_writer *lines, const uint8_t *bytes, size_t length)
{
	KR_AUTO_FREE char *text = kr_xcalloc(1, length + 1);
	char *line, *rest = text;

	memcpy(text, bytes, length);
	for (size_t i = 0; i < length; i++)
		text[i] = text[i] ? text[i] : ' ';
	while ((line = strsep(&rest, "\n")))
		kr_line_log_add(lines, "%s", line);
}

static void write_logs(const void *bytes, size_t length)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(logs); i++) {
		int fd = openat(dir, logs[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);

		assert(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
		close(fd);
	}
}

/* What `kairan journal` prints of the directory. Owned. */
static char *content(size_t *ret_damaged)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert(kr_state_dump(dir, false, stream, ret_damaged) == 0);
	fclose(stream);
	return text;
}

/* Each log is read, and written anew where a start writes it. */
static void start(void)
{
	static const uint8_t boot_id[16] = {1};
	struct kr_fid_aliases *aliases;
	struct kr_setbacks setbacks;
	struct kr_conflicts conflicts;
	struct kr_doubts doubts;

	assert(kr_setbacks_open(&setbacks, dir, boot_id) == 0 && kr_setbacks_save(&setbacks, dir, boot_id) == 0);
	assert(kr_doubts_open(&doubts, dir, 1, 2) == 0);
	assert(kr_fid_aliases_open(dir, &aliases) == 0);
	kr_fid_aliases_free(aliases);
	assert(kr_conflicts_open(&conflicts, dir) == 0);
	kr_conflicts_close(&conflicts);
}

/* The lines of the log of conflicts within TEXT. */
static const char *conflicts_of(const char *text)
{
	const char *found = strstr(text, "conflicts: ");

	return found ? found : "";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	KR_AUTO_FREE char *first = NULL, *second = NULL;
	struct kr_writer lines = {0};
	size_t damaged;

	if (length == 0)
		return 0;
	if (!dir)
		make_directory();
	add_lines(&lines, bytes + 1, length - 1);
	if (bytes[0] & 1)
		write_logs(bytes + 1, length - 1);
	else
		write_logs(lines.bytes, lines.length);
	kr_writer_fini(&lines);
	free(content(&damaged));
	start();
	unlinkat(dir, "aliases", 0); /* is written anew only when files of it are gone */
	first = content(&damaged);
	assert(damaged == 0);
	start();
	second = content(&damaged);
	assert(damaged == 0 && strcmp(conflicts_of(first), conflicts_of(second)) == 0);
	return 0;
}
