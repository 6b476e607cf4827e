/* See peace.h. */
#include "server/recovery/peace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/util.h"

enum { HEX = 33, LENGTH_MAX = 2 * HEX + 16 };

static const char file_name[] = "peace";
static const char *const words[] = {NULL, "killed", "failed", "serving", "stopped"};

struct kr_peace kr_peace_start(const struct kr_peace *found, const uint8_t machine[16], const uint8_t fresh[16], bool first)
{
	bool same_machine = found->state != KR_PEACE_UNKNOWN && memcmp(found->machine, machine, 16) == 0;
	bool stopped = found->state == KR_PEACE_STOPPED;
	bool failed = same_machine && found->state == KR_PEACE_FAILED;
	bool in_doubt = found->state == KR_PEACE_UNKNOWN ? !first : same_machine && !stopped && !failed;
	struct kr_peace next = {.state = in_doubt ? KR_PEACE_KILLED : KR_PEACE_SERVING};

	memcpy(next.machine, machine, 16);
	memcpy(next.boot, failed ? fresh : stopped || same_machine ? found->boot : machine, 16);
	return next;
}

static bool parse(char *line, struct kr_peace *peace)
{
	char machine[HEX], boot[HEX], word[16];
	int length = 0;

	if (sscanf(line, "%32s %32s %15s%n", machine, boot, word, &length) != 3 || strcmp(line + length, "\n") != 0 ||
		kr_hex_parse(machine, peace->machine, 16) != 16 || kr_hex_parse(boot, peace->boot, 16) != 16)
		return false;
	for (unsigned i = KR_PEACE_KILLED; i < KR_ARRAY_SIZE(words); i++) {
		if (strcmp(word, words[i]) == 0) {
			peace->state = (enum kr_peace_state)i;
			return true;
		}
	}
	return false;
}

int kr_peace_read(int dir, struct kr_peace *ret_peace)
{
	KR_AUTO_FREE char *text = NULL;
	int err = kr_read_file(dir, file_name, LENGTH_MAX, &text, NULL);

	*ret_peace = (struct kr_peace){0};
	if (err && err != -ENOENT && err != -EFBIG)
		return kr_fail_errno(err, "cannot read '%s' in the state directory", file_name);
	if (err || !parse(text, ret_peace))
		*ret_peace = (struct kr_peace){0};
	return 0;
}

int kr_peace_write(int dir, const struct kr_peace *peace)
{
	char machine[HEX], boot[HEX], line[LENGTH_MAX];
	int length;

	kr_hex_format(peace->machine, 16, machine);
	kr_hex_format(peace->boot, 16, boot);
	length = snprintf(line, sizeof(line), "%s %s %s\n", machine, boot, words[peace->state]);
	return kr_write_file(dir, file_name, line, (size_t)length, 0600);
}
