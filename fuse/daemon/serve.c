/* See serve.h.  A mount: its parts are made, run, and are taken down in reverse.
 *
 * The main thread makes the parts that block (journal, cache, the kernel's side), waits, and takes all parts down.  The
 * loop thread makes the parts that belong to the loop, while the main thread waits.  kr-loop runs the protocol; the
 * workers (kernel.c) take the kernel's requests.
 *
 * The end begins in one of two ways.  The kernel ends the session (fusermount3 -u), and the workers return.  Or a
 * signal comes: the daemon first drains unflushed bytes while the mount still serves, and then unmounts itself.
 */
#include "fuse/daemon/serve.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/names/lookup_prefetch.h"
#include "fuse/ops/access_log.h"
#include "fuse/ops/kernel_requests.h"
#include "fuse/ops/io_trace.h"
#include "fuse/ops/batch.h"
#include "fuse/file/prefetch.h"
#include "fuse/readcache/cache.h"
#include "common/metrics/metrics_server.h"
#include "common/rpc/attr_cache.h"
#include "fuse/daemon/control.h"
#include "fuse/daemon/mount_metrics.h"
#include "fuse/daemon/unmount_watch.h"
#include "fuse/names/dir_fsync.h"
#include "fuse/names/uncommitted_names.h"
#include "fuse/session/session.h"
#include "fuse/writeback/drain.h"
#include "fuse/file/file.h"
#include "fuse/readcache/hops.h"
#include "fuse/names/inode_table.h"
#include "fuse/base/lent.h"
#include "fuse/daemon/kernel.h"
#include "fuse/daemon/operations.h"
#include "fuse/base/counters.h"
#include "fuse/base/local_dir.h"
#include "fuse/file/locks.h"
#include "fuse/base/loop.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/names/kernel_names.h"
#include "fuse/base/notify.h"
#include "fuse/ops/op.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"
#include "fuse/writeback/flush.h"
#include "fuse/writeback/holdings.h"
#include "common/base/privilege.h"
#include "fuse/readcache/stage.h"

enum { LATE_DRAIN_MS = 2000 };

enum { SIGNALS = 3 };

struct kr_serve {
	struct kr_mount mount;
	struct kr_session_hooks hooks;
	struct kr_kernel *kernel; /* NULL: only the journal is replayed */
	bool replay_only;
	json_t *before; /* the content of the journal at the start of a replay */
	struct kr_recovery recovery;

	/* Loop thread. */
	uv_signal_t signals[SIGNALS];
	struct kr_drain *drain;

	/* Messages of the loop to the main thread. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool said_hello, live, drained, finished; /* guarded by lock */
	_Atomic bool interrupted;                 /* a signal came before the mount was live */
	_Atomic bool gone;                        /* the head of the job ... */
	_Atomic bool unreached;                   /* ... but it may still serve, and has not got all bytes */
	int hello_err;
	char hello_reason[512];
};

/* A function that runs in the loop thread while the main thread waits for its end. */
struct kr_step {
	struct kr_serve *serve;
	int err;
	char reason[512];
	json_t *status;
};

/* --- the loop tells the main thread ----------------------------------------------------------- */

/* The loop thread sets one of the flags, and wakes the main thread, which waits for it. */
static void tell(struct kr_serve *serve, bool *flag)
{
	pthread_mutex_lock(&serve->lock);
	*flag = true;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
}

static void wait_until(struct kr_serve *serve, const bool *flag)
{
	pthread_mutex_lock(&serve->lock);
	while (!*flag)
		pthread_cond_wait(&serve->changed, &serve->lock);
	pthread_mutex_unlock(&serve->lock);
}

static void on_drained(void *context)
{
	struct kr_serve *serve = context;

	serve->drain = NULL;
	tell(serve, &serve->drained);
	kr_kernel_wake(serve->kernel);
}

static void on_goodbye(void *context)
{
	struct kr_serve *serve = context;

	tell(serve, &serve->finished);
}

/* At the end of such a function: hands the reason of its error to the main thread. */
static void keep_reason(struct kr_step *step)
{
	snprintf(step->reason, sizeof(step->reason), "%s", step->err < 0 ? kr_fail_reason() : "");
}

/* Runs FN (a struct kr_step is its context) in the loop thread; returns its error and takes over the reason. */
static int in_loop(struct kr_serve *serve, void (*fn)(void *context))
{
	struct kr_step step = {.serve = serve};

	kr_loop_run(serve->mount.kr_loop, fn, &step);
	return step.err < 0 ? kr_fail(step.err, "%s", step.reason) : 0;
}

static void look_in_loop(void *context)
{
	struct kr_step *step = context;

	step->status = kr_flusher_status(step->serve->mount.flusher);
}

/* The bytes that are not on the server, as JSON; owned by the caller. */
static json_t *look(struct kr_serve *serve)
{
	struct kr_step step = {.serve = serve};

	kr_loop_run(serve->mount.kr_loop, look_in_loop, &step);
	return step.status;
}

/* --- signals ---------------------------------------------------------------------------------- */

/* One deadline for all draining, from the first reason to end. */
static uint64_t drain_deadline(struct kr_serve *serve)
{
	uint64_t unsaid = 0;

	if (serve->mount.options->ends_job)
		return 1;
	atomic_compare_exchange_strong(&serve->mount.drain_deadline_ns, &unsaid,
		kr_clock_ns() + serve->mount.options->drain_timeout * KR_NS_PER_MS);
	return atomic_load(&serve->mount.drain_deadline_ns);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct kr_serve *serve = handle->data;

	if (!serve->live) { /* no program has the mount yet: make() gives up */
		serve->interrupted = true;
		tell(serve, &serve->said_hello);
		tell(serve, &serve->live);
	} else if (number == SIGHUP && !serve->mount.options->foreground && !serve->mount.options->replay) {
		/* There is no terminal that could have been closed, and log rotation sends SIGHUP without meaning an
		 * end. */
		kr_log_info("SIGHUP: there is nothing to read again (SIGTERM unmounts)");
	} else if (serve->drain) {
		kr_log_info("signal %d again: not draining any further", number);
		kr_drain_hurry(serve->drain);
	} else if (!atomic_load(&serve->mount.stopping)) {
		kr_log_info("signal %d: draining, then unmounting", number);
		atomic_store(&serve->mount.stopping, true);
		serve->drain = kr_drain_start(&serve->mount, drain_deadline(serve), on_drained, serve);
	}
}

static void watch_signals(struct kr_serve *serve)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct sigaction former;
	bool nohup = sigaction(SIGHUP, NULL, &former) == 0 && former.sa_handler == SIG_IGN;

	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(serve->mount.loop, &serve->signals[i]);
		serve->signals[i].data = serve;
		if (numbers[i] != SIGHUP || !nohup)
			uv_signal_start(&serve->signals[i], on_signal, numbers[i]);
	}
	kr_ops_start(&serve->mount);
}

/* --- making: the parts, in the order of mount.h's fields --------------------------------------- */

static void on_refused(struct kr_mount *mount)
{
	struct kr_serve *serve = KR_CONTAINER_OF(mount, struct kr_serve, mount);

	atomic_store(&mount->drain_deadline_ns, 1);
	if (serve->drain)
		kr_drain_hurry(serve->drain);
	tell(serve, &serve->live);
}

static void on_gone(struct kr_mount *mount, bool ended)
{
	struct kr_serve *serve = KR_CONTAINER_OF(mount, struct kr_serve, mount);
	struct kr_journal_usage usage;

	if (serve->gone)
		return;
	kr_journal_usage(mount->journal, &usage);
	serve->unreached = !ended && usage.live > 0;
	if (ended)
		kr_log_warn("%s is gone, and all files of %s with it", mount->options->head, mount->options->source);
	else
		kr_log_warn("%s is gone: it has not been reached for %g s (timeo)", mount->options->head,
			(double)mount->options->timeo / 1e3);
	serve->gone = true;
	on_refused(mount);
	kr_kernel_wake(serve->kernel);
}

static void on_hello(void *context, int err)
{
	struct kr_serve *serve = context;

	serve->hello_err = err;
	snprintf(serve->hello_reason, sizeof(serve->hello_reason), "%s", err < 0 ? kr_fail_reason() : "");
	tell(serve, &serve->said_hello);
}

static void on_live(void *context)
{
	struct kr_serve *serve = context;

	tell(serve, &serve->live);
}

static void hop_listen(struct kr_mount *mount, const char *host, uint16_t *ret_port)
{
	if (kr_hops_listen(mount->hops, host, &mount->options->ring_ports, ret_port) < 0)
		kr_log_warn(
			"cannot listen for other nodes: %s; until the next connection to the server they pull nothing from here",
			kr_fail_reason());
}

static void on_welcome(struct kr_mount *mount)
{
	const struct kr_session_facts *facts = kr_session_facts(mount->session);

	kr_hops_identify(mount->hops, facts->node, facts->id, facts->ring_key, (enum kr_security)facts->security,
		facts->lease_ms);
	if (kr_lent())
		kr_lent_set_lease(facts->lease_ms);
}

static size_t on_boot(struct kr_mount *mount, uint64_t heard_ns, uint64_t now_ns)
{
	return kr_dir_fsync_booted(mount->dir_syncs, heard_ns, now_ns);
}

/* What the server's loss of power may undo. */
static void note_change(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked,
	const union kr_any_msg *reply, uint64_t heard_ns)
{
	if (type != KR_MSG_CREATE && type != KR_MSG_MAKE && type != KR_MSG_REMOVE && type != KR_MSG_LINK &&
		type != KR_MSG_RENAME && type != KR_MSG_SETATTR)
		return;
	kr_dir_fsync_answered(mount->dir_syncs, type, asked, reply, heard_ns);
	kr_uncommitted_names_answered(mount->uncommitted_names, type, asked, reply, heard_ns);
}

static void on_answer(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked, int err, const void *reply,
	uint16_t flags, uint64_t asked_ns, uint64_t heard_ns)
{
	kr_attr_cache_learn(mount, type, asked, err, reply, flags, asked_ns, heard_ns);
	if (err == 0)
		note_change(mount, type, asked, reply, heard_ns);
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

/* So that memory is given back when nothing new comes in. */
static void forget_old(struct kr_mount *mount)
{
	kr_attr_cache_forget_old(mount);
	kr_uncommitted_names_forget_old(mount->uncommitted_names, kr_clock_ns());
}

static void make_protocol(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;

	watch_signals(step->serve);
	step->err = kr_rpc_new(mount, &mount->options->server, &mount->rpc);
	if (step->err == 0) {
		kr_rpc_set_hooks(mount->rpc, &rpc_hooks);
		kr_attr_cache_start(mount);
		kr_kernel_attrs_start(mount);
		kr_kernel_names_start(mount);
	}
	if (step->err == 0)
		step->err = kr_session_new(mount, &mount->session);
	if (step->err == 0)
		step->err = kr_hops_new(mount, &mount->hops);
	if (step->err == 0) {
		step->serve->hooks = *kr_recovery_hooks();
		step->serve->hooks.listen = hop_listen;
		step->serve->hooks.welcomed = on_welcome;
		step->serve->hooks.backlog = tell_backlog;
		step->serve->hooks.heartbeat = forget_old;
		step->serve->hooks.booted = on_boot;
		step->serve->hooks.disconnected = kr_attr_cache_clear;
		step->serve->hooks.refused = on_refused;
		step->serve->hooks.gone = on_gone;
		kr_session_set_hooks(mount->session, &step->serve->hooks);
		kr_session_start(mount->session, mount->options->connect_timeout, on_hello, step->serve);
	}
	keep_reason(step);
}

static int say_hello(struct kr_serve *serve)
{
	int err = in_loop(serve, make_protocol);

	if (err < 0)
		return err;
	wait_until(serve, &serve->said_hello);
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

/* Drops cached blocks before a write fails for lack of space. */
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
		.on_space = on_journal_space,
		.make_room = drop_cached,
		.context = mount};
	int err = kr_local_bind(mount->local, facts->export_id);

	memcpy(journal.export_id, facts->export_id, sizeof(journal.export_id));
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
		mount->prefetches = kr_prefetches_new(mount);
	if (step->err == 0)
		kr_holdings_init(mount);
	if (step->err == 0)
		mount->io_trace = kr_io_trace_new(mount);
	if (step->err == 0)
		kr_recover(mount, &step->serve->recovery);
	keep_reason(step);
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
	if (!kr_lent())
		mount->unmount_watch = kr_unmount_watch_new(mount, dev_major, dev_minor);
	keep_reason(step);
}

static void make_metrics(void *context)
{
	struct kr_step *step = context;

	step->err = kr_mount_metrics_start(&step->serve->mount);
	keep_reason(step);
}

static int make_mount(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	int err = kr_kernel_new(mount, &kr_cluster_operations, &serve->kernel);

	if (err == 0) {
		mount->fuse = kr_kernel_fuse(serve->kernel);
		err = kr_notifier_new(mount->fuse, &mount->notifier);
	}
	if (err == 0)
		err = kr_notifier_new(mount->fuse, &mount->shrink_notifier);
	if (err == 0)
		err = kr_notifier_new(mount->fuse, &mount->attr_notifier);
	if (err == 0)
		err = in_loop(serve, make_control);
	return err;
}

/* The privileges that a mount of root keeps. */
static const struct kr_capability kept[] = {
	{CAP_SYS_ADMIN, "to mount, and to unmount at the end"},
	{CAP_DAC_READ_SEARCH, "to find the mount point, and the key file again, wherever they lie"},
	{CAP_SYS_PTRACE, "to learn the groups of callers where /proc hides processes (hidepid)"},
	{CAP_IPC_LOCK, "secrets are locked into memory"},
};

/* A mount of an ordinary user has no privileges.  At both ends it needs fusermount3, which has them. */
void kr_serve_give_up_privileges(void)
{
	if (geteuid() != 0)
		return;
	kr_capabilities_keep(kept, KR_ARRAY_SIZE(kept));
	kr_privileges_freeze();
	kr_syscalls_forbid(true, true);
}

/* Makes all parts.  0, or the error of the first part that could not be made; kr_serve takes the others down. */
static int make(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	int err;

	kr_serve_give_up_privileges();
	kr_give_back_idle_memory();
	mount->power_lost = mount->options->replay || kr_journal_lost_power(kr_local_journal(mount->local), NULL);
	err = kr_loop_new(&mount->kr_loop);
	if (err < 0)
		return err;
	mount->loop = kr_loop_uv(mount->kr_loop);
	err = say_hello(serve);
	if (err == 0)
		err = open_local(serve);
	if (err == 0)
		err = in_loop(serve, make_files);
	if (err == 0 && serve->replay_only)
		serve->before = look(serve);
	else if (err == 0)
		err = in_loop(serve, make_metrics);
	if (err == 0 && !serve->replay_only)
		err = make_mount(serve);
	if (err == 0)
		err = in_loop(serve, begin_session);
	if (err == 0 && serve->kernel)
		err = kr_kernel_start(serve->kernel);
	return err;
}

/* --- unmaking --------------------------------------------------------------------------------- */

static void start_last_drain(void *context)
{
	struct kr_step *step = context;
	struct kr_serve *serve = step->serve;
	bool at_once = serve->gone || serve->mount.options->ends_job;
	uint64_t least = at_once ? 0 : kr_clock_ns() + LATE_DRAIN_MS * KR_NS_PER_MS;

	kr_local_leaving(serve->mount.local);
	/* Nothing waits for the kernel any more. */
	atomic_store(&serve->mount.stopping, true);
	kr_ops_interrupt(&serve->mount);
	if (serve->drain) /* the drain of a signal is still under way: its end counts */
		return;
	pthread_mutex_lock(&serve->lock);
	serve->drained = false;
	pthread_mutex_unlock(&serve->lock);
	serve->drain = kr_drain_start(&serve->mount, KR_MAX(drain_deadline(serve), least), on_drained, serve);
}

static void start_goodbye(void *context)
{
	struct kr_step *step = context;

	kr_session_goodbye(step->serve->mount.session, on_goodbye, step->serve);
}

/* Flushes the last bytes to the server, then ends the session.  True: no bytes are left. */
static bool drain_and_part(struct kr_serve *serve)
{
	bool all;

	in_loop(serve, start_last_drain);
	wait_until(serve, &serve->drained);
	all = kr_drain_report(&serve->mount);
	in_loop(serve, start_goodbye);
	wait_until(serve, &serve->finished);
	return all;
}

static void stop_protocol(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;

	kr_metrics_stop(mount->metrics);
	kr_control_free(mount->control);
	kr_unmount_watch_free(mount->unmount_watch);
	kr_prefetches_free(mount->prefetches);
	kr_io_trace_close(mount->io_trace);
	if (mount->flusher)
		kr_flusher_stop(mount->flusher);
	if (mount->files)
		kr_files_stop(mount->files);
	if (mount->hops)
		kr_hops_close(mount->hops);
	if (mount->rpc)
		kr_rpc_stop(mount->rpc);
	kr_ops_interrupt(mount);
	mount->parted = true;
	kr_locks_fini(mount);
	kr_session_free(mount->session);
	kr_kernel_attrs_stop(mount);
	kr_kernel_names_stop(mount);
	kr_rpc_free(mount->rpc);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&step->serve->signals[i], NULL);
	uv_close((uv_handle_t *)&mount->ops.tick, NULL);
}

static void unmake(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;

	kr_kernel_stop(serve->kernel);
	if (mount->kr_loop)
		in_loop(serve, stop_protocol);
	kr_notifier_free(mount->notifier); /* a RECALL may have needed it until now */
	kr_notifier_free(mount->shrink_notifier);
	kr_notifier_free(mount->attr_notifier);
	kr_loop_free(mount->kr_loop);
	kr_io_trace_free(mount->io_trace);
	kr_flusher_free(mount->flusher);
	kr_files_free(mount->files);
	kr_hops_free(mount->hops);
	kr_cache_free(mount->cache);
	kr_journal_free(mount->journal);
	kr_recovery_fini(&serve->recovery);
	kr_batches_free(mount->batches);
	kr_dir_fsync_free(mount->dir_syncs);
	kr_uncommitted_names_free(mount->uncommitted_names);
	kr_lookup_prefetch_free(mount->lookup_prefetch);
	kr_attr_cache_free(mount->attr_cache);
	kr_kernel_attrs_free(mount->kernel_attrs);
	kr_kernel_names_free(mount->kernel_names);
	kr_inodes_free(mount->inodes);
	kr_counters_free(mount->counters);
	kr_kernel_free(serve->kernel);
	kr_access_log_free(mount->access_log);
	kr_kernel_requests_free(mount->requests);
}

/* Whether it is open here, or has bytes to send, or a lease. */
static bool is_known(void *context, const struct kr_fid *fid)
{
	struct kr_file *file = kr_file_find(context, fid);

	kr_file_put(file);
	return file != NULL;
}

static struct kr_serve *serve_new(const struct kr_mount_options *options, struct kr_local *local)
{
	struct kr_serve *serve = kr_xcalloc(1, sizeof(*serve));

	serve->mount.options = options;
	serve->mount.local = local;
	serve->mount.counters = kr_counters_new();
	serve->mount.requests = kr_kernel_requests_new(&serve->mount);
	serve->mount.access_log = kr_access_log_new(&serve->mount);
	serve->mount.batches = kr_batches_new();
	serve->mount.attr_cache = kr_attr_cache_new();
	serve->mount.kernel_attrs = kr_kernel_attrs_new();
	serve->mount.kernel_names = kr_kernel_names_new();
	serve->mount.lookup_prefetch = kr_lookup_prefetch_new();
	serve->mount.dir_syncs = kr_dir_fsync_new();
	serve->mount.uncommitted_names = kr_uncommitted_names_new(is_known, &serve->mount);
	kr_list_init(&serve->recovery.files);
	kr_list_init(&serve->recovery.damage);
	pthread_mutex_init(&serve->lock, NULL);
	pthread_cond_init(&serve->changed, NULL);
	return serve;
}

/* Waits until the server has judged all bytes, or the time is over. */
static void wait_for_replay(struct kr_serve *serve)
{
	const uint64_t now_ns = kr_clock_ns(), ends_ns = KR_MAX(drain_deadline(serve), now_ns);
	const struct timespec end = kr_monotonic_after(ends_ns - now_ns);

	pthread_mutex_lock(&serve->lock);
	while (!serve->live && kr_cond_wait_until(&serve->changed, &serve->lock, end))
		continue;
	pthread_mutex_unlock(&serve->lock);
}

int kr_serve_replay(
	const struct kr_mount_options *options, struct kr_local *local, json_t **ret_before, json_t **ret_after)
{
	struct kr_serve *serve = serve_new(options, local);
	char reason[512];
	int result;

	serve->replay_only = true;
	drain_deadline(serve); /* the time begins now */
	result = make(serve);
	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	if (result == 0) {
		wait_for_replay(serve);
		result = drain_and_part(serve) ? 0 : 1;
		*ret_after = look(serve);
		*ret_before = serve->before;
		serve->before = NULL;
	}
	json_decref(serve->before);
	unmake(serve);
	free(serve);
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}

int kr_serve(
	const struct kr_mount_options *options, struct kr_local *local, bool (*ready)(void *context), void *context)
{
	struct kr_serve *serve = serve_new(options, local);
	char reason[512];
	int result = make(serve);
	bool is_ready;

	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	if (result == 0) {
		wait_until(serve, &serve->live);
		is_ready = !serve->interrupted && !serve->gone && ready(context);
		if (is_ready)
			kr_kernel_wait(serve->kernel);
		if (is_ready && serve->gone)
			return kr_fail(serve->unreached ? -EHOSTDOWN : -ENOTCONN, "%s is gone", options->head);
		kr_kernel_stop(serve->kernel);
		result = drain_and_part(serve) ? 0 : 1;
	}
	unmake(serve);
	free(serve);
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}
