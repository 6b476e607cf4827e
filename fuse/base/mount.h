/* The one mount of this process: every module of the node gets it.
 *
 * serve.c makes the parts and takes them down; meanwhile the pointers do not change.  Each part says which threads may
 * use it.
 */
#ifndef KR_FUSE_MOUNT_H
#define KR_FUSE_MOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/base/list.h"
#include "common/base/util.h"

struct fuse_session;
struct kr_mount_options;
struct kr_local;
struct kr_counters;
struct kr_access_log;
struct kr_kernel_requests;
struct kr_io_trace;
struct kr_loop;
struct kr_rpc;
struct kr_session;
struct kr_inodes;
struct kr_files;
struct kr_journal;
struct kr_flusher;
struct kr_chains;
struct kr_cache;
struct kr_hops;
struct kr_notifier;
struct kr_control;
struct kr_unmount_watch;
struct kr_metrics_server;
struct kr_view;
struct kr_locks;
struct kr_batches;
struct kr_prefetches;
struct kr_attr_cache;
struct kr_kernel_attrs;
struct kr_kernel_names;
struct kr_lookup_prefetch;
struct kr_dir_fsync;
struct kr_uncommitted_names;

struct kr_mount {
	const struct kr_mount_options *options;
	struct kr_local *local; /* the local directory: locked, journal/ and cache/ in it */
	struct kr_counters *counters;
	struct kr_kernel_requests *requests; /* those of the kernel, for the access log and the trace */
	struct kr_access_log *access_log;
	struct kr_io_trace *io_trace;
	struct kr_loop *kr_loop;
	uv_loop_t *loop; /* == kr_loop_uv(kr_loop) */
	struct kr_rpc *rpc;
	struct kr_session *session;
	struct kr_inodes *inodes;
	struct kr_journal *journal;
	struct kr_cache *cache;
	struct kr_hops *hops;
	struct kr_files *files;
	struct kr_flusher *flusher;
	struct kr_chains *chains; /* the flusher's streams to other nodes */
	struct kr_notifier *notifier;
	struct kr_notifier *shrink_notifier; /* for shrink_notice.h alone */
	struct kr_notifier *attr_notifier;   /* for kernel_attrs.h alone */
	struct kr_locks *locks;
	struct kr_batches *batches;
	struct kr_prefetches *prefetches;
	struct kr_attr_cache *attr_cache;
	struct kr_kernel_attrs *kernel_attrs;
	struct kr_kernel_names *kernel_names;
	struct kr_lookup_prefetch *lookup_prefetch;
	struct kr_dir_fsync *dir_syncs;
	struct kr_uncommitted_names *uncommitted_names;
	struct fuse_session *fuse;
	struct kr_control *control;
	struct kr_unmount_watch *unmount_watch;
	struct kr_metrics_server *metrics; /* NULL: not asked for */
	/* With view=node: this, options, local, the loop, fuse, control and unmount_watch are all parts; else NULL. */
	struct kr_view *view;

	/* Fencing by the node's own clock (fence.h).  After this moment (kr_clock_ns) the server may have given the
	 * node's leases away.  So the node serves nothing from caches and leases, and ops wait.  Each answered PING of
	 * a live session moves the moment ahead (session.c).  A session that is lost takes the leases themselves away
	 * (writeback/recovery.c).  Fast paths ask kr_mount_fenced under file->lock: a stopped process is fenced when it
	 * continues, before any of its timers has run. */
	_Atomic uint64_t fence_at_ns;
	/* The offset from kr_clock_ns to the server's CLOCK_REALTIME (from HELLO and PING); the node's own
	 * CLOCK_REALTIME may be set at any time. */
	_Atomic int64_t server_clock_offset_ns;
	/* The longest file that the export can hold (HELLO); 0: not known. */
	_Atomic uint64_t file_max;
	/* No more new work: the mount drains or ends. */
	_Atomic bool stopping;
	/* No path of this mount namespace leads to the mount any more: bytes are flushed at once (unmount_watch.h). */
	_Atomic bool unmounted;
	/* When draining ends (kr_clock_ns); 0: not yet known.  Set at the first reason to end, or by the kairan
	 * command. */
	_Atomic uint64_t drain_deadline_ns;
	struct {
		struct kr_list all; /* posted ones */
		uv_timer_t tick;    /* runs only while an op can end by a signal, or by the time */
	} ops;                      /* op.c's; loop thread */
	bool parted;                /* no server can be reached any more; loop thread */
	/* This machine lost power since the journal was written, and the server has not judged all of it yet. Set
	 * before the first HELLO, then loop thread. */
	bool power_lost;
};

static inline uint64_t kr_mount_file_max(const struct kr_mount *mount)
{
	uint64_t max = atomic_load_explicit(&mount->file_max, memory_order_relaxed);

	return max ? max : INT64_MAX;
}

/* Any thread; a few tens of nanoseconds. */
static inline bool kr_mount_fenced(struct kr_mount *mount)
{
	return kr_clock_ns() >= atomic_load_explicit(&mount->fence_at_ns, memory_order_relaxed);
}

#endif
