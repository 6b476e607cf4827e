/* How a mount begins: its parts, in the order of mount.h's fields.
 *
 * The main thread makes what blocks (journal, cache, the kernel's side); what belongs to the loop is made there, while
 * the main thread waits.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/privilege.h"
#include "fuse/file/prefetch.h"
#include "fuse/readcache/cache.h"
#include "fuse/daemon/control.h"
#include "fuse/file/file.h"
#include "fuse/writeback/flush.h"
#include "fuse/readcache/hops.h"
#include "fuse/names/inode_table.h"
#include "fuse/daemon/kernel.h"
#include "fuse/base/local_dir.h"
#include "fuse/file/locks.h"
#include "fuse/base/loop.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/dir_fsync.h"
#include "fuse/base/notify.h"
#include "fuse/base/options.h"
#include "fuse/writeback/recover.h"
#include "fuse/session/rpc.h"
#include "fuse/daemon/serve_priv.h"
#include "fuse/readcache/stage.h"

static void on_hello(void *context, int err)
{
	struct kr_serve *serve = context;

	serve->hello_err = err;
	snprintf(serve->hello_reason, sizeof(serve->hello_reason), "%s", err < 0 ? kr_fail_reason() : "");
	kr_serve_tell(serve, &serve->said_hello);
}

static void on_live(void *context)
{
	struct kr_serve *serve = context;

	kr_serve_tell(serve, &serve->live);
}

static void hop_listen(struct kr_mount *mount, const char *host, uint16_t *ret_port)
{
	if (kr_hops_listen(mount->hops, host, &mount->options->ring_ports, ret_port) < 0)
		kr_log_warn(
			"cannot listen for other nodes: %s; until the next connection to the server they pull nothing from here",
			kr_fail_reason());
}

static void hop_identify(struct kr_mount *mount)
{
	const struct kr_session_facts *facts = kr_session_facts(mount->session);

	kr_hops_identify(mount->hops, facts->node, facts->id, facts->ring_key, (enum kr_security)facts->security,
		facts->lease_ms);
}

static size_t on_boot(struct kr_mount *mount, uint64_t heard_ns, uint64_t now_ns)
{
	return kr_dir_fsync_booted(mount->dir_syncs, heard_ns, now_ns);
}

static void on_answer(struct kr_mount *mount, uint16_t type, const void *fields, size_t length, int err,
	const void *reply, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns)
{
	kr_attr_cache_learn(mount, type, fields, length, err, reply, flags, asked_ns, heard_ns);
	if (err == 0)
		kr_dir_fsync_answered(mount->dir_syncs, type, fields, length, reply, heard_ns);
}

static const struct kr_rpc_hooks rpc_hooks = {
	.begun = kr_attr_cache_change_begin, .answered = on_answer, .ended = kr_attr_cache_change_end};

static void tell_backlog(struct kr_mount *mount, struct kr_backlog_request *ret)
{
	struct kr_flusher_left left;

	if (!mount->flusher)
		return;
	kr_flusher_left(mount->flusher, &left);
	*ret = (struct kr_backlog_request){.unflushed = left.dirty, .refused = left.refused + left.orphaned};
}

static void make_protocol(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;

	kr_serve_watch_signals(step->serve);
	step->err = kr_rpc_new(mount, &mount->options->server, &mount->rpc);
	if (step->err == 0) {
		kr_rpc_set_hooks(mount->rpc, &rpc_hooks);
		kr_attr_cache_start(mount);
	}
	if (step->err == 0)
		step->err = kr_session_new(mount, &mount->session);
	if (step->err == 0)
		step->err = kr_hops_new(mount, &mount->hops);
	if (step->err == 0) {
		step->serve->hooks = *kr_reclaim_hooks();
		step->serve->hooks.listen = hop_listen;
		step->serve->hooks.identify = hop_identify;
		step->serve->hooks.backlog = tell_backlog;
		step->serve->hooks.booted = on_boot;
		step->serve->hooks.disconnected = kr_attr_cache_clear;
		step->serve->hooks.refused = kr_serve_refused;
		kr_session_set_hooks(mount->session, &step->serve->hooks);
		kr_session_start(mount->session, mount->options->connect_timeout, on_hello, step->serve);
	}
	kr_step_keep_reason(step);
}

static int say_hello(struct kr_serve *serve)
{
	int err = kr_serve_in_loop(serve, make_protocol);

	if (err < 0)
		return err;
	kr_serve_wait(serve, &serve->said_hello);
	if (serve->interrupted)
		return kr_fail(-EINTR, "interrupted by a signal");
	return serve->hello_err < 0 ? kr_fail(serve->hello_err, "%s", serve->hello_reason) : 0;
}

static void on_journal_space(void *context)
{
	struct kr_mount *mount = context;

	if (mount->files)
		kr_files_space(mount->files);
}

/* What is only cached goes before a write fails. */
static bool drop_cached(void *context, uint64_t bytes)
{
	struct kr_mount *mount = context;

	return mount->cache && kr_cache_make_room(mount->cache, bytes);
}

/* Journal, cache and inodes: blocking, so in the main thread. */
static int open_local(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	const struct kr_session_facts *facts = kr_session_facts(mount->session);
	struct kr_journal_options journal = {.directory = kr_local_journal(mount->local),
		.incarnation = kr_local_incarnation(mount->local),
		.max = mount->options->journal_max,
		.server_instance = facts->instance,
		.on_space = on_journal_space,
		.make_room = drop_cached,
		.context = mount};
	int err = kr_local_bind(mount->local, facts->export_id);

	memcpy(journal.export_id, facts->export_id, sizeof(journal.export_id));
	memcpy(journal.server_boot, facts->boot_id, sizeof(journal.server_boot));
	memcpy(journal.node_id, kr_local_node_id(mount->local), sizeof(journal.node_id));
	if (err == 0)
		err = kr_journal_open(&journal, &serve->recovery, &mount->journal);
	if (err == 0)
		err = kr_cache_new(
			kr_local_fd(mount->local), facts->export_id, mount->options->cache_max, &mount->cache);
	if (err == 0)
		err = kr_inodes_new(&facts->root, &mount->inodes);
	return err;
}

static void make_files(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;

	kr_locks_init(mount);
	step->err = kr_files_new(mount, &kr_flush_hooks, &mount->files);
	if (step->err == 0)
		step->err = kr_stages_init(mount);
	if (step->err == 0)
		step->err = kr_flusher_new(mount, &mount->flusher);
	if (step->err == 0)
		step->err = kr_files_start(mount->files);
	if (step->err == 0)
		mount->brings = kr_prefetches_new(mount);
	if (step->err == 0)
		step->err = kr_recover(mount, &step->serve->recovery);
	kr_step_keep_reason(step);
}

static void begin_session(void *context)
{
	struct kr_step *step = context;

	kr_session_begin(step->serve->mount.session, on_live, step->serve);
}

static void make_control(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;
	unsigned dev_major, dev_minor;

	kr_kernel_device(step->serve->kernel, &dev_major, &dev_minor);
	step->err = kr_control_new(mount, dev_major, dev_minor, &mount->control);
	kr_step_keep_reason(step);
}

static int make_mount(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	int err = kr_kernel_new(mount, &serve->kernel);

	if (err == 0) {
		mount->fuse = kr_kernel_fuse(serve->kernel);
		err = kr_notifier_new(mount->fuse, &mount->notifier);
	}
	if (err == 0)
		err = kr_notifier_new(mount->fuse, &mount->cut_notifier);
	if (err == 0)
		err = kr_serve_in_loop(serve, make_control);
	return err;
}

/* What a mount of root's keeps of his privileges. */
static const struct kr_capability kept[] = {
	{CAP_SYS_ADMIN, "to mount, and to unmount at the end"},
	{CAP_DAC_READ_SEARCH, "to find the mount point, and the key file again, wherever they lie"},
	{CAP_SYS_PTRACE, "to learn the groups of callers where /proc hides processes (hidepid)"},
	{CAP_IPC_LOCK, "secrets are locked into memory"},
};

/* A mount of an ordinary user's has no privileges; it needs fusermount3, which has, at both ends. */
static void give_up_privileges(void)
{
	if (geteuid() != 0)
		return;
	kr_capabilities_keep(kept, KR_ARRAY_SIZE(kept));
	kr_privileges_freeze();
	kr_syscalls_forbid(true, true);
}

int kr_serve_make(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	int err;

	give_up_privileges();
	err = kr_loop_new(&mount->kr_loop);
	if (err < 0)
		return err;
	mount->loop = kr_loop_uv(mount->kr_loop);
	err = say_hello(serve);
	if (err == 0)
		err = open_local(serve);
	if (err == 0)
		err = kr_serve_in_loop(serve, make_files);
	if (err == 0 && serve->replay_only)
		serve->before = kr_serve_look(serve);
	else if (err == 0)
		err = make_mount(serve);
	if (err == 0)
		err = kr_serve_in_loop(serve, begin_session);
	if (err == 0 && serve->kernel)
		err = kr_kernel_start(serve->kernel);
	return err;
}
