/* See mount_status.h.  The kairan command prints this; kairan(1) describes its fields. */
#include "fuse/daemon/mount_status.h"

#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "common/base/process.h"
#include "fuse/readcache/cache.h"
#include "fuse/file/file.h"
#include "fuse/writeback/chain.h"
#include "fuse/writeback/flush.h"
#include "fuse/readcache/hops.h"
#include "fuse/names/inode_table.h"
#include "fuse/base/counters.h"
#include "fuse/base/lent.h"
#include "fuse/base/local_dir.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/names/kernel_names.h"
#include "fuse/ops/op.h"
#include "fuse/ops/io_trace.h"
#include "fuse/base/options.h"
#include "fuse/view/view.h"
#include "fuse/session/rpc.h"
#include "fuse/session/session.h"

enum { OPERATIONS_SHOWN = 16 };

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *server_status(struct kr_mount *mount)
{
	const struct kr_session_facts *facts = kr_session_facts(mount->session);
	json_t *status = json_object();
	const bool connected = kr_rpc_connected(mount->rpc);
	uint64_t received, sent, heard_ns = kr_rpc_heard_ns(mount->rpc);

	kr_rpc_counters(mount->rpc, &received, &sent);
	json_object_set_new(status, "connected", json_boolean(connected));
	json_object_set_new(status, "why", connected ? json_null() : kr_text_json(kr_session_obstacle(mount->session)));
	json_object_set_new(status, "fenced", json_boolean(kr_mount_fenced(mount)));
	json_object_set_new(
		status, "silent_ms", heard_ns ? number((kr_clock_ns() - heard_ns) / KR_NS_PER_MS) : json_null());
	json_object_set_new(status, "session", json_sprintf("%016llx", (unsigned long long)facts->id));
	json_object_set_new(status, "instance", number(facts->instance));
	json_object_set_new(status, "node", number(facts->node));
	json_object_set_new(status, "lease_ms", number(facts->lease_ms));
	json_object_set_new(status, "requests_waiting", number(kr_rpc_pending(mount->rpc)));
	json_object_set_new(status, "received_bytes", number(received));
	json_object_set_new(status, "sent_bytes", number(sent));
	return status;
}

static json_t *backlog_status(struct kr_mount *mount)
{
	struct kr_flusher_left left;
	json_t *status = json_object();

	kr_flusher_left(mount->flusher, &left);
	json_object_set_new(status, "bytes", number(left.dirty));
	json_object_set_new(status, "files", number(left.files));
	json_object_set_new(status, "refused_bytes", number(left.refused));
	json_object_set_new(status, "refused_files", number(left.refused_files));
	json_object_set_new(status, "orphaned_bytes", number(left.orphaned));
	json_object_set_new(status, "orphaned_files", number(left.orphaned_files));
	json_object_set_new(status, "unstable_bytes", number(left.unstable));
	json_object_set_new(status, "damages", number(left.damages));
	json_object_set_new(status, "conflict_files", number(left.conflict_files));
	json_object_set_new(
		status, "oldest_ms", number(left.oldest_ns ? (kr_clock_ns() - left.oldest_ns) / KR_NS_PER_MS : 0));
	return status;
}

static json_t *cache_status(struct kr_mount *mount)
{
	struct kr_cache_counters counters;
	json_t *status = json_object();

	kr_cache_counters(mount->cache, &counters);
	json_object_set_new(status, "bytes", number(counters.bytes));
	json_object_set_new(status, "max_bytes", number(counters.max_bytes));
	json_object_set_new(status, "files", number(counters.files));
	json_object_set_new(status, "memory_bytes", number(counters.memory_bytes));
	json_object_set_new(status, "bad_blocks", number(counters.bad_blocks));
	return status;
}

static json_t *ring_status(struct kr_mount *mount)
{
	struct kr_hops_counters counters;
	json_t *status = json_object();

	kr_hops_counters(mount->hops, &counters);
	json_object_set_new(status, "port", number(counters.port));
	json_object_set_new(status, "received_bytes", number(counters.received));
	json_object_set_new(status, "sent_bytes", number(counters.sent));
	json_object_set_new(status, "incoming", number(counters.incoming));
	json_object_set_new(status, "outgoing", number(counters.outgoing));
	json_object_set_new(status, "lanes", number(counters.lanes));
	json_object_set_new(status, "reassigned_blocks", number(counters.reassigned));
	json_object_set_new(status, "verbs", number(counters.verbs));
	json_object_set_new(status, "in_flight_bytes", number(counters.in_flight));
	return status;
}

/* The operations for which programs wait now, the longest first. */
static json_t *operations_status(struct kr_mount *mount)
{
	json_t *status = json_object(), *list = json_array();
	uint64_t now = kr_clock_ns(), count = 0;
	const struct kr_op *op;

	KR_LIST_FOR_EACH(op, &mount->ops.all, all) {
		if (count++ < OPERATIONS_SHOWN)
			json_array_append_new(list,
				json_pack("{s:s, s:I}", "name", op->name, "waiting_ms",
					(json_int_t)((now - op->started_ns) / KR_NS_PER_MS)));
	}
	json_object_set_new(status, "count", number(count));
	json_object_set_new(status, "oldest", list);
	return status;
}

static json_t *files_status(struct kr_mount *mount)
{
	json_t *status = json_object();
	uint64_t files = 0, open = 0;

	kr_files_count(mount->files, &files, &open);
	json_object_set_new(status, "known_to_kernel", number(kr_inodes_count(mount->inodes)));
	json_object_set_new(status, "in_use", number(files));
	json_object_set_new(status, "open", number(open));
	return status;
}

json_t *kr_mount_figures(struct kr_mount *mount)
{
	json_t *figures = json_object();

	json_object_set_new(figures, "kind", json_string("mount"));
	json_object_set_new(figures, "version", json_string(KR_VERSION));
	json_object_set_new(figures, "server", server_status(mount));
	json_object_set_new(figures, "backlog", backlog_status(mount));
	json_object_set_new(figures, "journal", kr_flusher_journal_status(mount->flusher));
	json_object_set_new(figures, "cache", cache_status(mount));
	json_object_set_new(figures, "ring", ring_status(mount));
	json_object_set_new(figures, "inodes", files_status(mount));
	json_object_set_new(figures, "notes", kr_attr_cache_status(mount));
	json_object_set_new(figures, "kernel_attributes", kr_kernel_attrs_status(mount));
	json_object_set_new(figures, "kernel_names", kr_kernel_names_status(mount));
	json_object_set_new(figures, "operations", operations_status(mount));
	json_object_set_new(figures, "counters", kr_counters_status(mount->counters));
	json_object_set_new(figures, "buffer_bytes", number(kr_buf_bytes_in_use()));
	json_object_set_new(figures, "process", kr_process_status());
	return figures;
}

/* Of a mount without a server. */
static json_t *view_figures(struct kr_mount *mount)
{
	json_t *figures = json_object();

	json_object_set_new(figures, "kind", json_string("mount"));
	json_object_set_new(figures, "version", json_string(KR_VERSION));
	json_object_set_new(figures, "view", kr_view_status(mount->view));
	json_object_set_new(figures, "process", kr_process_status());
	return figures;
}

/* The figures, and the facts of a mount that every user may know. */
static json_t *public_status(struct kr_mount *mount)
{
	json_t *status = mount->view ? view_figures(mount) : kr_mount_figures(mount);
	char lender[256] = "";

	json_object_set_new(status, "source", kr_text_json(mount->options->source));
	json_object_set_new(status, "mount_point", kr_text_json(mount->options->mount_point));
	json_object_set_new(status, "node_name", kr_text_json(kr_local_node_name(mount->local)));
	json_object_set_new(status, "pid", json_integer(getpid()));
	if (kr_lent() && gethostname(lender, sizeof(lender) - 1) == 0)
		json_object_set_new(status, "lender", kr_text_json(lender));
	json_object_set_new(status, "ends_job", json_boolean(mount->options->ends_job));
	json_object_set_new(status, "drain_timeout_ms", number(mount->options->drain_timeout));
	json_object_set_new(status, "stopping", json_boolean(mount->stopping));
	return status;
}

/* How the mount proves itself to the server. */
static json_t *proof_status(const struct kr_mount_options *options)
{
	return json_pack("{s:o, s:b, s:o, s:I}", "key", kr_text_json(options->key ? options->key : ""), "munge",
		options->munge, "munge_socket", kr_text_json(options->munge_socket ? options->munge_socket : ""),
		"munge_uid", (json_int_t)options->munge_uid);
}

static void add_hop(void *context, const struct kr_conn *conn, bool incoming)
{
	json_array_append_new(context,
		json_pack("{s:s, s:s, s:s, s:I}", "peer", kr_conn_peer(conn), "direction", incoming ? "in" : "out",
			"transport", kr_conn_transport(conn), "verbs_bytes", (json_int_t)kr_conn_carried_bytes(conn)));
}

static json_t *hops_status(struct kr_mount *mount)
{
	json_t *list = json_array();

	kr_hops_each(mount->hops, add_hop, list);
	kr_chains_each(mount->chains, add_hop, list);
	return list;
}

json_t *kr_mount_status(struct kr_mount *mount)
{
	json_t *status = public_status(mount), *flusher;

	json_object_set_new(status, "local", kr_text_json(kr_local_path(mount->local)));
	if (mount->view)
		return status;
	json_object_set_new(json_object_get(status, "ring"), "hops", hops_status(mount));
	flusher = kr_flusher_status(mount->flusher);
	json_object_set_new(status, "proof", proof_status(mount->options));
	json_object_set_new(status, "trace", kr_io_trace_status(mount->io_trace));
	json_object_update(status, flusher); /* files, damage, conflicts */
	json_decref(flusher);
	return status;
}

json_t *kr_mount_status_for(struct kr_mount *mount, uint32_t uid)
{
	json_t *status = public_status(mount);

	if (mount->view)
		return status;
	json_object_set_new(json_object_get(status, "journal"), "refused", json_string("")); /* a file's name */
	json_object_set_new(status, "user", number(uid));
	json_object_set_new(status, "files", kr_flusher_files_of(mount->flusher, uid));
	return status;
}
