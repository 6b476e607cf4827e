/* Giving up privileges; see privilege.h.  No state. */
#include "common/base/privilege.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"

void kr_capabilities_keep(const struct kr_capability *list, size_t count)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	uint64_t keep = 0;

	for (size_t i = 0; i < count; i++)
		keep |= UINT64_C(1) << list[i].number;
	if (syscall(SYS_capget, &header, data) < 0)
		return;
	/* Needs CAP_SETPCAP.  Without it, kr_privileges_freeze keeps started programs from having more rights than this
	 * one. */
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!(keep >> i & 1))
			prctl(PR_CAPBSET_DROP, i);
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data) < 0)
		kr_log_warn("cannot give up capabilities: %s", strerror(errno));
}

void kr_privileges_freeze(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		kr_log_warn("cannot give up new privileges: %s", strerror(errno));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#if !defined(SANITIZED) && defined(ARCHITECTURE)

static const int never[] = {
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_clock_adjtime,
	SYS_quotactl,
	SYS_syslog,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
#endif
#ifdef SYS_userfaultfd
	SYS_userfaultfd,
#endif
};
static const int of_rings[] = {
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
#endif
};
static const int of_mounts[] = {
	SYS_mount, SYS_umount2, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_fsconfig, SYS_fspick};
static const int of_execs[] = {SYS_execve, SYS_execveat};

enum { LISTED_MAX = 128 };

struct program {
	struct sock_filter code[2 * LISTED_MAX + 8];
	unsigned short length;
};

static void add(struct program *program, struct sock_filter instruction)
{
	program->code[program->length++] = instruction;
}

static void deny(struct program *program, const int *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], 0, 1));
		add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	}
}

static void begin(struct program *program)
{
	program->length = 0;
	add(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
	add(program,
		(struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)); /* calls of another kind, with other numbers */
	add(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
#ifdef __x86_64__
	add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1)); /* x32 */
	add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
#endif
}

static void install(struct program *program)
{
	struct sock_fprog filter;

	add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	filter = (struct sock_fprog){.len = program->length, .filter = program->code};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
		kr_log_debug("no filter of system calls: %s", strerror(errno));
}

void kr_rings_forbid(void)
{
	struct program program;

	begin(&program);
	deny(&program, of_rings, KR_ARRAY_SIZE(of_rings));
	install(&program);
}

void kr_syscalls_forbid(bool mounts, bool execs)
{
	struct program program;

	_Static_assert(
		KR_ARRAY_SIZE(never) + KR_ARRAY_SIZE(of_rings) + KR_ARRAY_SIZE(of_mounts) + KR_ARRAY_SIZE(of_execs) <
			LISTED_MAX,
		"the program has room");
	begin(&program);
	deny(&program, never, KR_ARRAY_SIZE(never));
	deny(&program, of_rings, KR_ARRAY_SIZE(of_rings));
	if (!mounts)
		deny(&program, of_mounts, KR_ARRAY_SIZE(of_mounts));
	if (!execs)
		deny(&program, of_execs, KR_ARRAY_SIZE(of_execs));
	install(&program);
}

#else

void kr_rings_forbid(void)
{
}

void kr_syscalls_forbid(bool mounts, bool execs)
{
	(void)mounts, (void)execs;
}

#endif
