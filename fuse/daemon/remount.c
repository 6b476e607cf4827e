/* See remount.h. */
#include "fuse/daemon/remount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/daemon/mountpoint.h"

static const struct {
	const char *word;
	unsigned long set, clear;
} words[] = {
	{"suid", 0, MS_NOSUID},
	{"nosuid", MS_NOSUID, 0},
	{"dev", 0, MS_NODEV},
	{"nodev", MS_NODEV, 0},
	{"exec", 0, MS_NOEXEC},
	{"noexec", MS_NOEXEC, 0},
	{"sync", MS_SYNCHRONOUS, 0},
	{"dirsync", MS_DIRSYNC, 0},
};

/* As libfuse mounts: without set-user-ID programs and devices, unless they are asked for. */
static unsigned long flags_of(const struct kr_mount_options *options)
{
	KR_AUTO_FREE char *list = kr_xstrdup(options->fuse_options ? options->fuse_options : "");
	unsigned long flags = MS_NOSUID | MS_NODEV | (options->read_only ? MS_RDONLY : 0);
	char *rest = NULL;

	for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		for (size_t i = 0; i < KR_ARRAY_SIZE(words); i++)
			if (strcmp(word, words[i].word) == 0)
				flags = (flags | words[i].set) & ~words[i].clear;
	}
	return flags;
}

static int remount(const struct kr_mounted *mounted, const struct kr_mount_options *options)
{
	if (strcmp(mounted->source, options->source) != 0)
		return kr_fail(-EINVAL, "cannot remount %s: %s is mounted there, not %s", mounted->path,
			mounted->source, options->source);
	if (mount(NULL, mounted->path, NULL, MS_REMOUNT | flags_of(options), NULL) == 0)
		return 0;
	return kr_fail_errno(-errno, "cannot remount %s%s", mounted->path,
		errno == EBUSY         ? " read-only while files are open for writing" :
			errno == EPERM ? " (only root can)" :
					 "");
}

int kr_remount(const struct kr_mount_options *options)
{
	KR_AUTO_FREE char *plain = kr_plain_path(options->mount_point);
	struct kr_mounted mounted = {0};
	int err;

	if (kr_mounted_find(plain, true, &mounted) < 0)
		return kr_fail(-EINVAL, "cannot remount %s: no mount of kairanfs is there", plain);
	err = remount(&mounted, options);
	kr_mounted_fini(&mounted);
	return err;
}
