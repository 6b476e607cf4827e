#include "server/base/clean_shutdown.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/util.h"

enum { HEX = 33, LENGTH_MAX = 2 * HEX + 16 };

static const char file_name[] = "peace";
static const char *const words[] = {NULL, "killed", "failed", "serving", "stopped"};

struct kr_clean_shutdown kr_clean_shutdown_start(
	const struct kr_clean_shutdown *found, const uint8_t machine[16], const uint8_t fresh[16], bool first)
{
	bool same_machine = found->state != KR_CLEAN_SHUTDOWN_UNKNOWN && memcmp(found->machine, machine, 16) == 0;
	bool stopped = found->state == KR_CLEAN_SHUTDOWN_STOPPED;
	bool failed = same_machine && found->state == KR_CLEAN_SHUTDOWN_FAILED;
	bool in_doubt = found->state == KR_CLEAN_SHUTDOWN_UNKNOWN ? !first : same_machine && !stopped && !failed;
	struct kr_clean_shutdown next = {.state = in_doubt ? KR_CLEAN_SHUTDOWN_KILLED : KR_CLEAN_SHUTDOWN_SERVING};

	memcpy(next.machine, machine, 16);
	memcpy(next.boot, stopped || (same_machine && !failed) ? found->boot : fresh, 16);
	return next;
}

static bool parse(char *line, struct kr_clean_shutdown *shutdown)
{
	char machine[HEX], boot[HEX], word[16];
	int length = 0;

	if (sscanf(line, "%32s %32s %15s%n", machine, boot, word, &length) != 3 || strcmp(line + length, "\n") != 0 ||
		kr_hex_parse(machine, shutdown->machine, 16) != 16 || kr_hex_parse(boot, shutdown->boot, 16) != 16)
		return false;
	for (unsigned i = KR_CLEAN_SHUTDOWN_KILLED; i < KR_ARRAY_SIZE(words); i++) {
		if (strcmp(word, words[i]) == 0) {
			shutdown->state = (enum kr_clean_shutdown_state)i;
			return true;
		}
	}
	return false;
}

int kr_clean_shutdown_read(int dir, struct kr_clean_shutdown *ret_shutdown)
{
	KR_AUTO_FREE char *text = NULL;
	int err = kr_read_file(dir, file_name, LENGTH_MAX, &text, NULL);

	*ret_shutdown = (struct kr_clean_shutdown){0};
	if (err && err != -ENOENT && err != -EFBIG)
		return kr_fail_errno(err, "cannot read '%s' in the state directory", file_name);
	if (err || !parse(text, ret_shutdown))
		*ret_shutdown = (struct kr_clean_shutdown){0};
	return 0;
}

int kr_clean_shutdown_write(int dir, const struct kr_clean_shutdown *shutdown)
{
	char machine[HEX], boot[HEX], line[LENGTH_MAX];
	int length;

	kr_hex_format(shutdown->machine, 16, machine);
	kr_hex_format(shutdown->boot, 16, boot);
	length = snprintf(line, sizeof(line), "%s %s %s\n", machine, boot, words[shutdown->state]);
	return kr_write_file(dir, file_name, line, (size_t)length, 0600);
}
