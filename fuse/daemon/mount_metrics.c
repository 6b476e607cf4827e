/* See mount_metrics.h.  docs/metrics.md describes these names: they keep their meanings, and
 * test/cases/admin/metrics.sh compares. */
#include "fuse/daemon/mount_metrics.h"

#include "common/base/util.h"
#include "common/metrics/exposition.h"
#include "common/metrics/metrics_server.h"
#include "fuse/base/options.h"
#include "fuse/daemon/mount_status.h"

#define GAUGE .type = KR_METRIC_GAUGE
#define COUNTER .type = KR_METRIC_COUNTER
#define BYTES .unit = "bytes"
#define SECONDS .unit = "seconds", .divisor = 1000

static const struct kr_metric metrics[] = {
	{"kairan_node", .type = KR_METRIC_INFO, .path = "version", .label = "version", .help = "The daemon's version."},
	{"kairan_node_server_connected", GAUGE, .path = "server.connected",
		.help = "1: there is a connection to the server."},
	{"kairan_node_fenced", GAUGE, .path = "server.fenced",
		.help = "1: the server was silent for so long that operations wait."},
	{"kairan_node_server_silent_seconds", GAUGE, SECONDS, .path = "server.silent_ms",
		.help = "Since when the server was not heard."},
	{"kairan_node_server_requests_waiting", GAUGE, .path = "server.requests_waiting",
		.help = "Requests that wait for the server's answer."},
	{"kairan_node_server_received_bytes", COUNTER, BYTES, .path = "server.received_bytes",
		.help = "Received from the server, but for ring connections."},
	{"kairan_node_server_sent_bytes", COUNTER, BYTES, .path = "server.sent_bytes",
		.help = "Sent to the server, but for ring connections."},
	{"kairan_node_operation_duration_seconds", .type = KR_METRIC_HISTOGRAM, .unit = "seconds",
		.path = "counters.requests", .label = "operation",
		.help = "From a request of the kernel to its answer."},
	{"kairan_node_operations_waiting", GAUGE, .path = "operations.count",
		.help = "Requests of the kernel that wait now."},
	{"kairan_node_read_bytes", COUNTER, BYTES, .path = "counters.read_bytes",
		.help = "Read through the mount; what the kernel has in its pages is not read again."},
	{"kairan_node_written_bytes", COUNTER, BYTES, .path = "counters.written_bytes",
		.help = "Written through the mount, to the journal."},
	{"kairan_node_cache_reads", COUNTER, .path = "counters.cache_hits", .label = "result=hit",
		.help = "Reads by whether all their bytes were on this node."},
	{"kairan_node_cache_reads", .path = "counters.cache_misses", .label = "result=miss"},
	{"kairan_node_cache_bytes", GAUGE, BYTES, .path = "cache.bytes", .help = "In the read cache."},
	{"kairan_node_cache_max_bytes", GAUGE, BYTES, .path = "cache.max_bytes",
		.help = "The limit of the read cache."},
	{"kairan_node_cache_files", GAUGE, .path = "cache.files", .help = "Files in the read cache."},
	{"kairan_node_cache_bad_blocks", COUNTER, .path = "cache.bad_blocks",
		.help = "Damaged blocks that were dropped."},
	{"kairan_node_backlog_bytes", GAUGE, BYTES, .path = "backlog.bytes",
		.help = "Unflushed: written here and not applied by the server."},
	{"kairan_node_backlog_files", GAUGE, .path = "backlog.files",
		.help = "Files with bytes that are not known to be on the server's disk."},
	{"kairan_node_backlog_age_seconds", GAUGE, SECONDS, .path = "backlog.oldest_ms",
		.help = "For how long the oldest unflushed bytes have waited."},
	{"kairan_node_backlog_unstable_bytes", GAUGE, BYTES, .path = "backlog.unstable_bytes",
		.help = "Applied by the server, and not known to be on its disk."},
	{"kairan_node_backlog_refused_bytes", GAUGE, BYTES, .path = "backlog.refused_bytes",
		.help = "Unflushed, and refused by the server."},
	{"kairan_node_backlog_orphaned_bytes", GAUGE, BYTES, .path = "backlog.orphaned_bytes",
		.help = "Unflushed, of files that were removed."},
	{"kairan_node_damages", GAUGE, .path = "backlog.damages",
		.help = "Damages of the journal that a start has set aside."},
	{"kairan_node_journal_used_bytes", GAUGE, BYTES, .path = "journal.used",
		.help = "What the journal takes on the local disk."},
	{"kairan_node_journal_live_bytes", GAUGE, BYTES, .path = "journal.live", .help = "What of that is needed."},
	{"kairan_node_journal_max_bytes", GAUGE, BYTES, .path = "journal.max", .help = "The limit of the journal."},
	{"kairan_node_journal_full", GAUGE, .path = "journal.waiting",
		.help = "1: writers wait for room in the journal."},
	{"kairan_node_flushes", COUNTER, .path = "counters.flushes",
		.help = "Flushes of a file that the server has applied."},
	{"kairan_node_flushed_bytes", COUNTER, BYTES, .path = "counters.flushed_bytes",
		.help = "The bytes of these flushes."},
	{"kairan_node_flush_errors", COUNTER, .path = "counters.flush_errors",
		.help = "Flushes that the server has refused."},
	{"kairan_node_lease_recalls", COUNTER, .path = "counters.recalls",
		.help = "Recalls of leases that came from the server."},
	{"kairan_node_conflict_files", GAUGE, .path = "backlog.conflict_files",
		.help = "Conflict files with bytes of this node."},
	{"kairan_node_ring_received_bytes", COUNTER, BYTES, .path = "ring.received_bytes",
		.help = "Received on ring connections, from the server too."},
	{"kairan_node_ring_sent_bytes", COUNTER, BYTES, .path = "ring.sent_bytes", .help = "Sent on ring connections."},
	{"kairan_node_ring_connections", GAUGE, .path = "ring.incoming", .label = "direction=incoming",
		.help = "Ring connections now: incoming from nodes that this one feeds, outgoing to those that feed it."},
	{"kairan_node_ring_connections", .path = "ring.outgoing", .label = "direction=outgoing"},
	{"kairan_node_ring_lanes", GAUGE, .path = "ring.lanes",
		.help = "Of the outgoing ones, those that were added because one to the same peer was not enough."},
	{"kairan_node_ring_reassigned_blocks", COUNTER, .path = "ring.reassigned_blocks",
		.help = "Blocks of 128 KiB that were asked over another connection because theirs was late."},
	{"kairan_node_ring_verbs_connections", GAUGE, .path = "ring.verbs",
		.help = "Ring connections whose file data goes over RDMA verbs."},
	{"kairan_node_open_files", GAUGE, .path = "inodes.open", .help = "Files that programs have open."},
	{"kairan_node_buffer_bytes", GAUGE, BYTES, .path = "buffer_bytes", .help = "Memory of buffers for file data."},
	{"process_resident_memory_bytes", GAUGE, BYTES, .path = "process.resident_bytes",
		.help = "Memory of the daemon."},
	{"process_cpu_seconds", COUNTER, SECONDS, .path = "process.cpu_ms", .help = "Processor time of the daemon."},
};

static json_t *collect(void *context)
{
	return kr_mount_figures(context);
}

int kr_mount_metrics_start(struct kr_mount *mount)
{
	const struct kr_metrics_source source = {metrics, KR_ARRAY_SIZE(metrics), collect, mount};

	if (!mount->options->metrics)
		return 0;
	return kr_metrics_start(mount->loop, mount->options->metrics, &source, &mount->metrics);
}
