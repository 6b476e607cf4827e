/* See local_place.h. */
#include "fuse/daemon/local_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/util.h"

enum kr_place_kind kr_place_kind(const char *type)
{
	/* Names that end with '.' stand for all that begin with them; of several that fit, the first counts. */
	static const struct {
		const char *type;
		enum kr_place_kind kind;
	} known[] = {
		{"fuse.kairanfs", KR_PLACE_KAIRAN},
		{"tmpfs", KR_PLACE_MEMORY},
		{"ramfs", KR_PLACE_MEMORY},
		{"overlay", KR_PLACE_LAYER},
		{"nfs", KR_PLACE_NETWORK},
		{"nfs4", KR_PLACE_NETWORK},
		{"cifs", KR_PLACE_NETWORK},
		{"smb3", KR_PLACE_NETWORK},
		{"9p", KR_PLACE_NETWORK},
		{"afs", KR_PLACE_NETWORK},
		{"ceph", KR_PLACE_NETWORK},
		{"lustre", KR_PLACE_NETWORK},
		{"gpfs", KR_PLACE_NETWORK},
		{"beegfs", KR_PLACE_NETWORK},
		{"fuse.", KR_PLACE_NETWORK},
	};

	for (size_t i = 0; i < KR_ARRAY_SIZE(known); i++) {
		size_t length = strlen(known[i].type);

		if (known[i].type[length - 1] == '.' ? strncmp(type, known[i].type, length) == 0 :
						       strcmp(type, known[i].type) == 0)
			return known[i].kind;
	}
	return KR_PLACE_DISK;
}

/* The type in a line "36 35 98:0 ROOT PATH OPTIONS [FIELDS...] - TYPE SOURCE SUPER_OPTIONS" of mount ID. */
static bool type_of_line(const char *line, uint64_t id, char ret_type[KR_PLACE_TYPE])
{
	const char *dash = strstr(line, " - ");

	return strtoull(line, NULL, 10) == id && dash && sscanf(dash, " - %63s", ret_type) == 1;
}

enum kr_place_kind kr_place_of(int fd, char ret_type[KR_PLACE_TYPE])
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	struct statx facts = {0};
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	*ret_type = '\0';
	/* By the mount's number, because of btrfs stat(2) tells other devices than the list. */
	if (file && statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &facts) == 0 && facts.stx_mask & STATX_MNT_ID)
		while (!found && getline(&line, &size, file) > 0)
			found = type_of_line(line, facts.stx_mnt_id, ret_type);
	free(line);
	if (file)
		fclose(file);
	return kr_place_kind(ret_type);
}
