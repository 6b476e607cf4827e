/* See as_caller.h.  All of it is the thread's own: file system ids, capabilities, and, after unshare(CLONE_FS), the
 * umask. */
#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include "fuse/view/as_caller.h"

#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/privilege.h"
#include "common/base/util.h"

/* Without CAP_SYS_RESOURCE: with it, quotas of the disk would not bind. */
static const struct kr_capability kept[] = {
	{CAP_SYS_ADMIN, "to mount and unmount, to register files for passthrough, trusted.* attributes"},
	{CAP_DAC_OVERRIDE, "to work in every directory of the view"},
	{CAP_DAC_READ_SEARCH, "to find the mount point, wherever it lies"},
	{CAP_CHOWN, "chown"},
	{CAP_FOWNER, "chmod, utimes and attributes of all files of the view"},
	{CAP_FSETID, "set-group-ID bits, where the kernel has allowed them"},
	{CAP_MKNOD, "device files, where the kernel has allowed them"},
	{CAP_SETFCAP, "security.capability attributes"},
	{CAP_SETUID, "to make files of other users"},
	{CAP_SETGID, "to make files of other groups"},
};

static bool privileged;
static struct __user_cap_data_struct usual[2], all[2];

static void set_capabilities(const struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	if (syscall(SYS_capset, &header, data) < 0)
		kr_log_debug("capset fails");
}

void kr_view_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	if (geteuid() != 0)
		return;
	kr_capabilities_keep(kept, KR_ARRAY_SIZE(kept));
	if (syscall(SYS_capget, &header, all) < 0)
		return;
	memcpy(usual, all, sizeof(usual));
	usual[0].effective &= ~(1u << CAP_FSETID);
	set_capabilities(usual);
	privileged = true;
	kr_privileges_freeze();
	kr_syscalls_forbid(true, true);
}

void kr_as_caller(fuse_req_t req)
{
	static _Thread_local bool own_umask;
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	if (!own_umask)
		own_umask = unshare(CLONE_FS) == 0;
	if (own_umask)
		umask(caller->umask);
	if (!privileged)
		return;
	setfsgid(caller->gid);
	setfsuid(caller->uid); /* takes capabilities away */
	set_capabilities(all);
}

void kr_as_owner(void)
{
	if (privileged)
		set_capabilities(all);
}

void kr_as_daemon(void)
{
	if (!privileged)
		return;
	setfsuid(0);
	setfsgid(0);
	set_capabilities(usual);
}
