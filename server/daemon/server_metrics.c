/* The server's metrics over HTTP (--metrics ADDR:PORT).  docs/metrics.md describes these names: they keep their
 * meanings, and test/cases/admin/metrics.sh compares. */
#include "common/base/util.h"
#include "common/metrics/exposition.h"
#include "common/metrics/metrics_server.h"
#include "server/base/options.h"
#include "server/daemon/life.h"

#define GAUGE .type = KR_METRIC_GAUGE
#define COUNTER .type = KR_METRIC_COUNTER
#define BYTES .unit = "bytes"
#define SECONDS .unit = "seconds", .divisor = 1000
#define EACH_NODE .array = "nodes", .label = "name,node,ring"

static const struct kr_metric metrics[] = {
	{"kairan_server", .type = KR_METRIC_INFO, .path = "version", .label = "version",
		.help = "The server's version."},
	{"kairan_server_uptime_seconds", GAUGE, SECONDS, .path = "uptime_ms", .help = "Since the start."},
	{"kairan_server_export_present", GAUGE, .path = "export.present",
		.help = "0: the exported directory has vanished."},
	{"kairan_server_grace_period", GAUGE, .path = "grace",
		.help = "1: the server waits after a restart for the nodes that it knew."},
	{"kairan_server_sessions", GAUGE, .path = "sessions", .label = "state",
		.help = "Mounts: connected now, or not."},
	{"kairan_server_sessions_lost", COUNTER, .path = "sessions_lost",
		.help = "Mounts that were silent for the lease time."},
	{"kairan_server_nodes_unflushed_bytes", GAUGE, BYTES, .path = "nodes_unflushed_bytes",
		.help = "Unflushed on all nodes, as they said last."},
	{"kairan_server_nodes_refused_bytes", GAUGE, BYTES, .path = "nodes_refused_bytes",
		.help = "Of these, refused by the server."},
	{"kairan_server_node_connected", GAUGE, EACH_NODE, .path = "connected",
		.help = "1: the node has a connection."},
	{"kairan_server_node_silent_seconds", GAUGE, SECONDS, EACH_NODE, .path = "silent_ms",
		.help = "Since the server last heard of the node."},
	{"kairan_server_node_unflushed_bytes", GAUGE, BYTES, EACH_NODE, .path = "unflushed_bytes",
		.help = "Unflushed on the node, as it said last."},
	{"kairan_server_node_unflushed_age_seconds", GAUGE, SECONDS, EACH_NODE, .path = "unflushed_ms",
		.help = "For how long each report of the node has told of unflushed bytes."},
	{"kairan_server_node_refused_bytes", GAUGE, BYTES, EACH_NODE, .path = "refused_bytes",
		.help = "Of its unflushed bytes, refused by the server."},
	{"kairan_server_node_served_bytes", COUNTER, BYTES, EACH_NODE, .path = "served_bytes",
		.help = "Blocks that the server itself sent to the node."},
	{"kairan_server_node_flushed_bytes", COUNTER, BYTES, EACH_NODE, .path = "flushed_bytes",
		.help = "Bytes of flush rounds that came from the node."},
	{"kairan_server_requests", COUNTER, .path = "requests", .label = "type", .help = "Requests of nodes."},
	{"kairan_server_request_duration_seconds", .type = KR_METRIC_HISTOGRAM, .unit = "seconds", .path = "latencies",
		.label = "type", .help = "From a request to its reply, waits for other nodes included."},
	{"kairan_server_requests_parked", GAUGE, .path = "parked.count", .help = "Requests that have waited for long."},
	{"kairan_server_requests_parked_age_seconds", GAUGE, SECONDS, .path = "parked.oldest_ms",
		.help = "For how long the oldest of these has waited."},
	{"kairan_server_export_reads", COUNTER, .path = "export.reads", .help = "Reads of exported files."},
	{"kairan_server_export_read_bytes", COUNTER, BYTES, .path = "export.read_bytes",
		.help = "Read from exported files."},
	{"kairan_server_export_writes", COUNTER, .path = "export.writes", .help = "Writes to exported files."},
	{"kairan_server_export_written_bytes", COUNTER, BYTES, .path = "export.write_bytes",
		.help = "Written to exported files."},
	{"kairan_server_export_descriptors", GAUGE, .path = "export.descriptors",
		.help = "Descriptors of exported files."},
	{"kairan_server_unlinked_files", GAUGE, .path = "export.orphans",
		.help = "Files that were removed while open, and are kept."},
	{"kairan_server_served_blocks", COUNTER, .path = "data.feed.blocks",
		.help = "Blocks sent to the first nodes of pipelines."},
	{"kairan_server_served_bytes", COUNTER, BYTES, .path = "data.feed.bytes",
		.help = "The bytes of these blocks; small files that come with OPEN are not counted."},
	{"kairan_server_flushed_bytes", COUNTER, BYTES, .path = "data.writes.flushed_bytes",
		.help = "Applied by flush rounds."},
	{"kairan_server_flush_rounds", COUNTER, .path = "data.rounds.inline", .label = "result=inline",
		.help = "Flush rounds: of one node with the request, chained over nodes, aborted and run again, "
			"failed."},
	{"kairan_server_flush_rounds", .path = "data.rounds.chained", .label = "result=chained"},
	{"kairan_server_flush_rounds", .path = "data.rounds.aborted", .label = "result=aborted"},
	{"kairan_server_flush_rounds", .path = "data.rounds.failed", .label = "result=failed"},
	{"kairan_server_syncs", COUNTER, .path = "data.syncs.number", .help = "Syncs of exported files."},
	{"kairan_server_sync_errors", COUNTER, .path = "data.syncs.errors", .help = "Syncs that failed."},
	{"kairan_server_syncs_waiting", GAUGE, .path = "data.syncs.waiting", .help = "Files that wait for a sync."},
	{"kairan_server_uncommitted_files", GAUGE, .path = "data.uncommitted_files",
		.help = "Files with applied bytes that are not known to be on the disk."},
	{"kairan_server_failed_sync_files", GAUGE, .path = "data.syncs.failed_files",
		.help = "Files whose sync has failed, and not succeeded since."},
	{"kairan_server_overlapped_bytes", COUNTER, BYTES, .path = "data.overlapped_bytes",
		.help = "Bytes that several nodes had written at once, decided by ring order."},
	{"kairan_server_leases_granted", COUNTER, .path = "leases.granted", .help = "Leases granted."},
	{"kairan_server_lease_recalls", COUNTER, .path = "leases.recalls", .help = "Recalls of leases sent to nodes."},
	{"kairan_server_invalidations", COUNTER, .path = "notes.told",
		.help = "Nodes told to invalidate names or attributes."},
	{"kairan_server_external_changes", COUNTER, .path = "watch.changes",
		.help = "Changes by programs on the server's machine that were noticed."},
	{"kairan_server_conflict_files", GAUGE, .path = "conflict_files", .help = "Conflict files that are there."},
	{"kairan_server_files", GAUGE, .path = "files",
		.help = "Files that the server keeps leases, locks or change counters of."},
	{"kairan_server_jobs", GAUGE, .path = "jobs", .help = "Blocking calls under way."},
	{"kairan_server_buffer_bytes", GAUGE, BYTES, .path = "buffer_bytes",
		.help = "Memory of buffers for file data."},
	{"kairan_server_queued_bytes", GAUGE, BYTES, .path = "queued_bytes", .help = "Queued for slow connections."},
	{"process_resident_memory_bytes", GAUGE, BYTES, .path = "process.resident_bytes",
		.help = "Memory of the daemon."},
	{"process_cpu_seconds", COUNTER, SECONDS, .path = "process.cpu_ms", .help = "Processor time of the daemon."},
};

static json_t *collect(void *context)
{
	json_t *figures = kr_server_figures(context);

	json_object_set_new(figures, "nodes", kr_server_node_figures(context));
	return figures;
}

int kr_server_metrics_start(struct kr_server *server)
{
	const struct kr_metrics_source source = {metrics, KR_ARRAY_SIZE(metrics), collect, server};

	if (!server->options->metrics)
		return 0;
	return kr_metrics_start(server->loop, server->options->metrics, &source, &server->daemon->metrics);
}
