/* See serve.h.  A mount from the moment when it is made (serve_make.c) until its parts are taken down, in reverse.
 *
 * The main thread makes, waits and unmakes; kr-loop does the protocol; its workers (kernel.c) take the kernel's
 * requests. The end has one of two beginnings: the kernel ends the session (fusermount3 -u: the workers return), or a
 * signal comes: then what is unflushed is drained first, with the mount still serving, and the daemon unmounts itself.
 */
#include "fuse/daemon/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/names/lookup_prefetch.h"
#include "fuse/ops/batch.h"
#include "fuse/file/prefetch.h"
#include "fuse/readcache/cache.h"
#include "fuse/daemon/control.h"
#include "fuse/names/dir_fsync.h"
#include "fuse/writeback/drain.h"
#include "fuse/file/file.h"
#include "fuse/readcache/hops.h"
#include "fuse/names/inode_table.h"
#include "fuse/daemon/kernel.h"
#include "fuse/base/local_dir.h"
#include "fuse/file/locks.h"
#include "fuse/base/loop.h"
#include "fuse/names/attr_cache.h"
#include "fuse/base/notify.h"
#include "fuse/ops/op.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"
#include "fuse/daemon/serve_priv.h"
#include "fuse/writeback/flush.h"

enum { LATE_DRAIN_MS = 2000, OPS_TICK_MS = 200 };

/* --- the loop tells the main thread ----------------------------------------------------------- */

void kr_serve_tell(struct kr_serve *serve, bool *flag)
{
	pthread_mutex_lock(&serve->lock);
	*flag = true;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
}

void kr_serve_wait(struct kr_serve *serve, const bool *flag)
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
	kr_serve_tell(serve, &serve->drained);
	kr_kernel_wake(serve->kernel);
}

static void on_goodbye(void *context)
{
	struct kr_serve *serve = context;

	kr_serve_tell(serve, &serve->finished);
}

void kr_step_keep_reason(struct kr_step *step)
{
	snprintf(step->reason, sizeof(step->reason), "%s", step->err < 0 ? kr_fail_reason() : "");
}

int kr_serve_in_loop(struct kr_serve *serve, void (*fn)(void *context))
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

json_t *kr_serve_look(struct kr_serve *serve)
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

	atomic_compare_exchange_strong(&serve->mount.drain_deadline_ns, &unsaid,
		kr_clock_ns() + serve->mount.options->drain_timeout * KR_NS_PER_MS);
	return atomic_load(&serve->mount.drain_deadline_ns);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct kr_serve *serve = handle->data;

	if (!serve->live) { /* not yet mounted for anybody: make() gives up */
		serve->interrupted = true;
		kr_serve_tell(serve, &serve->said_hello);
		kr_serve_tell(serve, &serve->live);
	} else if (number == SIGHUP && !serve->mount.options->foreground && !serve->mount.options->replay) {
		/* No terminal is left that could have been closed, and who rotates logs means no end by it. */
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

static void on_tick(uv_timer_t *timer)
{
	struct kr_serve *serve = timer->data;

	kr_ops_tick(&serve->mount);
}

void kr_serve_watch_signals(struct kr_serve *serve)
{
	static const int numbers[KR_SERVE_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct sigaction former;
	bool nohup = sigaction(SIGHUP, NULL, &former) == 0 && former.sa_handler == SIG_IGN;

	for (int i = 0; i < KR_SERVE_SIGNALS; i++) {
		uv_signal_init(serve->mount.loop, &serve->signals[i]);
		serve->signals[i].data = serve;
		if (numbers[i] != SIGHUP || !nohup)
			uv_signal_start(&serve->signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(serve->mount.loop, &serve->ops_tick);
	serve->ops_tick.data = serve;
	uv_timer_start(&serve->ops_tick, on_tick, OPS_TICK_MS, OPS_TICK_MS);
}

/* --- unmaking --------------------------------------------------------------------------------- */

static void start_last_drain(void *context)
{
	struct kr_step *step = context;
	struct kr_serve *serve = step->serve;
	uint64_t least = kr_clock_ns() + LATE_DRAIN_MS * KR_NS_PER_MS;

	kr_local_leaving(serve->mount.local);
	/* Nothing waits for the kernel any more. */
	atomic_store(&serve->mount.stopping, true);
	kr_ops_interrupt(&serve->mount);
	if (serve->drain) /* a signal's, still under way: its end counts */
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

/* Bytes that came in last go to the server, then the session ends. True: nothing is left. */
static bool drain_and_part(struct kr_serve *serve)
{
	bool all;

	kr_serve_in_loop(serve, start_last_drain);
	kr_serve_wait(serve, &serve->drained);
	all = kr_drain_report(&serve->mount);
	kr_serve_in_loop(serve, start_goodbye);
	kr_serve_wait(serve, &serve->finished);
	return all;
}

static void stop_protocol(void *context)
{
	struct kr_step *step = context;
	struct kr_mount *mount = &step->serve->mount;

	kr_control_free(mount->control);
	kr_prefetches_free(mount->brings);
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
	kr_rpc_free(mount->rpc);
	for (int i = 0; i < KR_SERVE_SIGNALS; i++)
		uv_close((uv_handle_t *)&step->serve->signals[i], NULL);
	uv_close((uv_handle_t *)&step->serve->ops_tick, NULL);
}

static void unmake(struct kr_serve *serve)
{
	struct kr_mount *mount = &serve->mount;

	kr_kernel_stop(serve->kernel);
	if (mount->kr_loop)
		kr_serve_in_loop(serve, stop_protocol);
	kr_notifier_free(mount->notifier); /* a RECALL may have needed it until now */
	kr_notifier_free(mount->cut_notifier);
	kr_loop_free(mount->kr_loop);
	kr_flusher_free(mount->flusher);
	kr_files_free(mount->files);
	kr_hops_free(mount->hops);
	kr_cache_free(mount->cache);
	kr_journal_free(mount->journal);
	kr_recovery_fini(&serve->recovery);
	kr_batches_free(mount->batches);
	kr_dir_fsync_free(mount->dir_syncs);
	kr_lookup_prefetch_free(mount->ahead);
	kr_attr_cache_free(mount->notes);
	kr_inodes_free(mount->inodes);
	kr_kernel_free(serve->kernel);
}

static struct kr_serve *serve_new(const struct kr_mount_options *options, struct kr_local *local)
{
	struct kr_serve *serve = kr_xcalloc(1, sizeof(*serve));

	serve->mount.options = options;
	serve->mount.local = local;
	serve->mount.batches = kr_batches_new();
	serve->mount.notes = kr_attr_cache_new();
	serve->mount.ahead = kr_lookup_prefetch_new();
	serve->mount.dir_syncs = kr_dir_fsync_new();
	kr_list_init(&serve->mount.ops);
	kr_list_init(&serve->recovery.files);
	kr_list_init(&serve->recovery.damage);
	pthread_mutex_init(&serve->lock, NULL);
	pthread_cond_init(&serve->changed, NULL);
	return serve;
}

void kr_serve_refused(struct kr_mount *mount)
{
	struct kr_serve *serve = KR_CONTAINER_OF(mount, struct kr_serve, mount);

	atomic_store(&mount->drain_deadline_ns, 1);
	if (serve->drain)
		kr_drain_hurry(serve->drain);
	kr_serve_tell(serve, &serve->live);
}

/* Until the server has judged all that there is, or the time is over. */
static void wait_for_replay(struct kr_serve *serve)
{
	const uint64_t now_ns = kr_clock_ns(), ends_ns = KR_MAX(drain_deadline(serve), now_ns);
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)((ends_ns - now_ns) / KR_NS_PER_S) + 1;
	pthread_mutex_lock(&serve->lock);
	while (!serve->live && pthread_cond_clockwait(&serve->changed, &serve->lock, CLOCK_MONOTONIC, &until) == 0)
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
	result = kr_serve_make(serve);
	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	if (result == 0) {
		wait_for_replay(serve);
		result = drain_and_part(serve) ? 0 : 1;
		*ret_after = kr_serve_look(serve);
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
	int result = kr_serve_make(serve);

	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	if (result == 0) {
		kr_serve_wait(serve, &serve->live);
		if (!serve->interrupted && ready(context))
			kr_kernel_wait(serve->kernel);
		kr_kernel_stop(serve->kernel);
		result = drain_and_part(serve) ? 0 : 1;
	}
	unmake(serve);
	free(serve);
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}
