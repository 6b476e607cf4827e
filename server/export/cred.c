#include "server/export/cred.h"

#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/privilege.h"
#include "common/base/util.h"

#define CAP(n) (UINT64_C(1) << (n))

struct capabilities {
	uint64_t effective, permitted, inheritable;
};

/* The server's own credentials, as the thread had them at first. */
static _Thread_local struct {
	bool ready, own_umask;
	struct capabilities caps;
} thread;

/* Creations take turns where a thread cannot have its own umask (a sandbox that forbids unshare). */
static pthread_mutex_t umask_lock = PTHREAD_MUTEX_INITIALIZER;

static int get_capabilities(struct capabilities *caps)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	caps->effective = data[0].effective | (uint64_t)data[1].effective << 32;
	caps->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	caps->inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
	return 0;
}

static int set_effective(const struct capabilities *caps, uint64_t effective)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{(uint32_t)effective, (uint32_t)caps->permitted, (uint32_t)caps->inheritable},
		{(uint32_t)(effective >> 32), (uint32_t)(caps->permitted >> 32), (uint32_t)(caps->inheritable >> 32)},
	};

	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

void kr_cred_prepare_thread(void)
{
	if (thread.ready)
		return;
	thread.ready = true;
	thread.own_umask = unshare(CLONE_FS) == 0;
	umask(0);
	/* With CAP_SYS_RESOURCE the kernel would ignore quotas and use the filesystem's reserve for clients. */
	if (get_capabilities(&thread.caps) == 0 && thread.caps.effective & CAP(CAP_SYS_RESOURCE)) {
		thread.caps.effective &= ~CAP(CAP_SYS_RESOURCE);
		set_effective(&thread.caps, thread.caps.effective);
	}
}

/* The capabilities that the server keeps. */
static const struct kr_capability kept[] = {
	{CAP_SETUID, "to become the caller, thread by thread"},
	{CAP_SETGID, "... with groups"},
	{CAP_DAC_READ_SEARCH, "files are opened by their handles"},
	{CAP_DAC_OVERRIDE, "what root on a node may do with files, and the server's own work in the export"},
	{CAP_CHOWN, "what root on a node may do with files"},
	{CAP_FOWNER, "what root on a node may do with files"},
	{CAP_FSETID, "what root on a node may do with files"},
	{CAP_MKNOD, "device nodes that root on a node makes"},
	{CAP_SETFCAP, "capabilities of programs that root on a node sets"},
	{CAP_IPC_LOCK, "secrets are locked into memory, also many of them"},
	{CAP_NET_BIND_SERVICE, "ports below 1024"},
};

void kr_cred_give_up(void)
{
	kr_capabilities_keep(kept, KR_ARRAY_SIZE(kept));
	kr_privileges_freeze();
	kr_syscalls_forbid(false, false);
	thread.ready = false; /* this thread's record of its capabilities is old */
	kr_cred_prepare_thread();
}

bool kr_cred_can_switch(void)
{
	const uint64_t needed =
		CAP(CAP_SETUID) | CAP(CAP_SETGID) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FOWNER) | CAP(CAP_CHOWN);

	kr_cred_prepare_thread();
	return geteuid() == 0 && (thread.caps.effective & needed) == needed;
}

static int switch_ids(const struct kr_cred *cred)
{
	if (syscall(SYS_setgroups, (size_t)cred->group_count, cred->groups) < 0)
		return kr_fail_errno(-errno, "taking on %u groups", cred->group_count);
	syscall(SYS_setfsgid, (long)cred->gid);
	syscall(SYS_setfsuid, (long)cred->uid);
	/* The calls return only the former id; an id that is not mapped in our namespace changes nothing. */
	if ((uint32_t)syscall(SYS_setfsgid, -1L) != cred->gid || (uint32_t)syscall(SYS_setfsuid, -1L) != cred->uid)
		return kr_fail(-EINVAL, "user %u or group %u does not exist for this server", cred->uid, cred->gid);
	if (cred->uid == 0)
		return 0;
	/* Drops all capabilities except those needed to return. */
	return set_effective(&thread.caps, thread.caps.effective & (CAP(CAP_SETUID) | CAP(CAP_SETGID)));
}

int kr_cred_enter(struct kr_as *as, bool use_ids, const struct kr_cred *cred)
{
	kr_cred_prepare_thread();
	if (!use_ids || !cred || (cred->uid == 0 && cred->gid == 0))
		return 0;
	if (cred->uid == UINT32_MAX || cred->gid == UINT32_MAX || cred->group_count > KR_GROUPS_MAX)
		return kr_fail(-EINVAL, "user %u and group %u with %u groups are not possible", cred->uid, cred->gid,
			cred->group_count);
	as->ids = true;
	return switch_ids(cred);
}

void kr_cred_umask(struct kr_as *as, uint32_t umask_bits)
{
	as->umask_lock = !thread.own_umask;
	if (as->umask_lock)
		pthread_mutex_lock(&umask_lock);
	as->umask = true;
	umask(umask_bits & 0777);
}

void kr_cred_leave(struct kr_as *as)
{
	int saved = errno;
	bool restored;

	if (as->umask) {
		umask(0);
		if (as->umask_lock)
			pthread_mutex_unlock(&umask_lock);
	}
	if (as->ids) {
		syscall(SYS_setfsuid, 0L);
		syscall(SYS_setfsgid, 0L);
		syscall(SYS_setgroups, (size_t)0, NULL);
		/* A thread with the wrong identity would make files for the wrong user. */
		restored = syscall(SYS_setfsuid, -1L) == 0 && set_effective(&thread.caps, thread.caps.effective) == 0;
		assert(restored);
	}
	*as = (struct kr_as){0};
	errno = saved;
}
