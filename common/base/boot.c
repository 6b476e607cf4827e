/* See boot.h. */
#include "common/base/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum { TEXT_MAX = 256 };

static int read_text(char **ret_text)
{
	int err;

#ifdef KR_FAULTS
	if (getenv("KR_BOOT_ID")) {
		*ret_text = kr_xstrdup(getenv("KR_BOOT_ID"));
		return 0;
	}
#endif
	err = kr_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", TEXT_MAX, ret_text, NULL);
	return err ? kr_fail_errno(err, "cannot read the machine's boot id") : 0;
}

int kr_boot_id(uint8_t ret_id[16])
{
	KR_AUTO_FREE char *text = NULL;
	uint8_t id[16];
	size_t count;
	int err = read_text(&text);

	if (err)
		return err;
	if (sodium_hex2bin(id, sizeof(id), text, strlen(text), "-\n", &count, NULL) != 0 || count != sizeof(id))
		return kr_fail(-EBADMSG, "the machine's boot id is not one: %s", text);
	memcpy(ret_id, id, 16);
	return 0;
}
