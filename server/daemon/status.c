/* The status of the server as JSON. */
#include "server/daemon/life.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/process.h"
#include "common/base/ring_order.h"
#include "server/flush/data.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/names/name_sync.h"
#include "server/base/blocked.h"
#include "server/base/options.h"
#include "server/leases/slow_requests.h"
#include "server/session/introductions.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/session/trust.h"
#include "server/base/state.h"
#include "server/recovery/recovery.h"
#include "server/leases/watch.h"

enum { PIECE = 60000 };

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* The figures of a node for metrics, which every user can read: no address and no key. */
static json_t *node_figures(const struct kr_session *session, uint64_t now_ns)
{
	const uint64_t since_ns = session->backlog.since_ns;
	json_t *object = json_object();

	json_object_set_new(object, "name", kr_text_json(session->name));
	json_object_set_new(object, "node", integer(session->node));
	json_object_set_new(object, "connected", json_boolean(session->conn != NULL));
	json_object_set_new(object, "ring", kr_text_json(session->ring.name));
	json_object_set_new(object, "silent_ms", integer((now_ns - session->expiry.heard_ns) / KR_NS_PER_MS));
	json_object_set_new(object, "unflushed_bytes", integer(session->backlog.unflushed));
	json_object_set_new(object, "unflushed_ms", integer(since_ns ? (now_ns - since_ns) / KR_NS_PER_MS : 0));
	json_object_set_new(object, "refused_bytes", integer(session->backlog.refused));
	json_object_set_new(object, "served_bytes", integer(session->ring.served_bytes));
	json_object_set_new(object, "flushed_bytes", integer(session->ring.flushed_bytes));
	return object;
}

static json_t *session_status(const struct kr_session *session, uint64_t now_ns)
{
	json_t *object = node_figures(session, now_ns);
	const struct kr_attachment *attachment;
	uint64_t received = 0, sent = 0, opens = 0;
	char key[KR_KEY_DESCRIPTION];

	if (session->conn)
		kr_conn_counters(session->conn, &received, &sent);
	KR_LIST_FOR_EACH(attachment, &session->leases.attachments, of_session)
		opens += attachment->opens;
	json_object_set_new(object, "address", json_string(session->conn ? kr_conn_peer(session->conn) : ""));
	json_object_set_new(object, "security",
		json_string(session->conn ? kr_security_name(kr_conn_security(session->conn)) : ""));
	json_object_set_new(
		object, "key", json_string(session->trust.key ? kr_key_describe(session->trust.key, key) : ""));
	json_object_set_new(object, "ring_address", json_string(session->ring.address));
	json_object_set_new(object, "ring_port", integer(session->ring.port));
	json_object_set_new(object, "reclaiming", json_boolean(session->recovery.reclaiming));
	json_object_set_new(object, "opens", integer(opens));
	json_object_set_new(object, "requests", integer(session->requests.count));
	json_object_set_new(object, "running", integer(session->flow.running));
	json_object_set_new(object, "asked", integer(session->callbacks.last_id));
	json_object_set_new(object, "received_bytes", integer(received));
	json_object_set_new(object, "sent_bytes", integer(sent));
	return object;
}

static json_t *export_status(const struct kr_server *server)
{
	json_t *object = json_object();
	struct kr_export_info info;

	kr_export_info(server->export, &info);
	json_object_set_new(object, "path", kr_text_json(server->options->export_path));
	json_object_set_new(object, "present", json_boolean(!server->export_lost));
	json_object_set_new(object, "file_handles", json_boolean(info.by_handle));
	json_object_set_new(object, "callers_ids", json_boolean(info.callers_ids));
	json_object_set_new(object, "read_only", json_boolean(info.read_only));
	json_object_set_new(object, "orphans", integer(info.orphans));
	json_object_set_new(object, "descriptors", integer(info.fds));
	json_object_set_new(object, "reads", integer(info.reads));
	json_object_set_new(object, "read_bytes", integer(info.read_bytes));
	json_object_set_new(object, "writes", integer(info.writes));
	json_object_set_new(object, "write_bytes", integer(info.write_bytes));
	return object;
}

/* The number of requests of each type, if not 0. */
static json_t *requests_status(const struct kr_server *server)
{
	json_t *object = json_object();

	for (uint16_t type = 0; type < (uint16_t)KR_SERVER_TYPES; type++) {
		if (server->sessions->arrived[type])
			json_object_set_new(object, kr_msg_name(type), integer(server->sessions->arrived[type]));
	}
	return object;
}

/* How long requests took from their arrival to their reply, by type. */
static json_t *latencies_status(const struct kr_server *server)
{
	json_t *object = json_object();

	for (uint16_t type = 0; type < (uint16_t)KR_SERVER_TYPES; type++) {
		json_t *took = kr_histogram_json(&server->sessions->took[type]);

		if (took)
			json_object_set_new(object, kr_msg_name(type), took);
	}
	return object;
}

/* The facts that every user who may mount may know. */
static json_t *common_status(const struct kr_server *server, uint64_t now_ns)
{
	json_t *object = json_object();

	json_object_set_new(object, "kind", json_string("server"));
	json_object_set_new(object, "version", json_string(KR_VERSION));
	json_object_set_new(object, "uptime_ms", integer((now_ns - server->started_ns) / KR_NS_PER_MS));
	json_object_set_new(object, "clock_ms", integer(kr_clock_real_ns() / KR_NS_PER_MS));
	json_object_set_new(object, "lease_ms", integer(server->lease_ms));
	json_object_set_new(object, "grace", json_boolean(server->sessions->grace.active));
	return object;
}

/* The sessions with a key of OWNER; NULL: all. */
static json_t *nodes_status(const struct kr_server *server, const struct kr_key_owner *owner, uint64_t now_ns)
{
	json_t *nodes = json_array();
	const struct kr_session *session;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (!owner || (session->trust.key && kr_key_owner_equal(&session->trust.key->owner, owner)))
			json_array_append_new(nodes, session_status(session, now_ns));
	}
	return nodes;
}

static json_t *status_for(const struct kr_server *server, const struct kr_key_owner *user)
{
	uint64_t now_ns = kr_clock_ns();
	json_t *object = common_status(server, now_ns);

	json_object_set_new(object, "user", integer(user->uid));
	json_object_set_new(object, "conflicts", kr_conflicts_status(&server->recovery->conflicts, user));
	json_object_set_new(object, "export",
		json_pack("{s:o, s:b}", "path", kr_text_json(server->options->export_path), "present",
			!server->export_lost));
	json_object_set_new(object, "nodes", nodes_status(server, user, now_ns));
	json_object_set_new(object, "introduced_jobs",
		kr_introductions_status(server->sessions->introductions, &user->uid, now_ns));
	return object;
}

/* All sessions together. */
static void add_sessions(const struct kr_server *server, json_t *object)
{
	const struct kr_session *session;
	uint64_t connected = 0, unflushed = 0, refused = 0;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		connected += session->conn != NULL;
		unflushed += session->backlog.unflushed;
		refused += session->backlog.refused;
	}
	json_object_set_new(object, "sessions",
		json_pack("{s:I, s:I}", "connected", (json_int_t)connected, "disconnected",
			(json_int_t)(server->sessions->count - connected)));
	json_object_set_new(object, "nodes_unflushed_bytes", integer(unflushed));
	json_object_set_new(object, "nodes_refused_bytes", integer(refused));
}

json_t *kr_server_figures(const struct kr_server *server)
{
	uint64_t now_ns = kr_clock_ns();
	json_t *object = common_status(server, now_ns);

	json_object_set_new(object, "instance", integer(server->instance));
	json_object_set_new(object, "keys", integer(server->keyring ? kr_keyring_count(server->keyring) : 0));
	json_object_set_new(object, "awaited_nodes", integer(kr_grace_awaited(&server->sessions->grace)));
	json_object_set_new(object, "requests_served", integer(server->sessions->requests));
	json_object_set_new(object, "requests", requests_status(server));
	json_object_set_new(object, "latencies", latencies_status(server));
	json_object_set_new(object, "leases",
		json_pack("{s:I, s:I}", "granted", (json_int_t)server->files->granted, "recalls",
			(json_int_t)server->files->recalls));
	json_object_set_new(object, "parked", kr_slow_requests_status(server, now_ns));
	json_object_set_new(object, "jobs", integer(server->jobs));
	json_object_set_new(object, "files", integer(server->files->by_fid.count));
	json_object_set_new(object, "idle_files", integer(server->files->idle.count + server->files->gone.count));
	json_object_set_new(object, "sessions_lost", integer(server->sessions->lost));
	json_object_set_new(object, "conflict_files", integer(kr_conflicts_files(&server->recovery->conflicts)));
	json_object_set_new(object, "buffer_bytes", integer(kr_buf_bytes_in_use()));
	json_object_set_new(object, "queued_bytes", integer(kr_conn_queued_in_all()));
	json_object_set_new(object, "export", export_status(server));
	json_object_set_new(object, "data", kr_data_status(server->data));
	json_object_set_new(object, "notes", kr_invalidation_status(server));
	json_object_set_new(object, "names", kr_name_sync_status(server));
	json_object_set_new(object, "watch", kr_watch_status(server));
	json_object_set_new(object, "process", kr_process_status());
	add_sessions(server, object);
	return object;
}

static int in_ring(const void *a, const void *b)
{
	const struct kr_session *const *one = a, *const *other = b;
	int rings = strcmp((*one)->ring.name, (*other)->ring.name);

	return rings ? rings : kr_ring_order((*one)->name, (*one)->node, (*other)->name, (*other)->node);
}

json_t *kr_server_node_figures(const struct kr_server *server)
{
	KR_AUTO_FREE const struct kr_session **sorted = kr_xcalloc(server->sessions->count + 1, sizeof(*sorted));
	const uint64_t now_ns = kr_clock_ns();
	json_t *nodes = json_array();
	const struct kr_session *session;
	size_t count = 0;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link)
		sorted[count++] = session;
	qsort(sorted, count, sizeof(*sorted), in_ring);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(nodes, node_figures(sorted[i], now_ns));
	return nodes;
}

static json_t *whole_status(const struct kr_server *server)
{
	json_t *object = kr_server_figures(server);

	json_object_set_new(object, "state_directory", kr_text_json(kr_state_path(server->state)));
	json_object_set_new(object, "conflicts", kr_conflicts_status(&server->recovery->conflicts, NULL));
	json_object_set_new(json_object_get(object, "data"), "overlapped_files", kr_data_overlaps(server->data));
	json_object_set_new(json_object_get(object, "data"), "hops", kr_data_hops(server->data));
	json_object_set_new(object, "nodes", nodes_status(server, NULL, kr_clock_ns()));
	json_object_set_new(object, "introduced_jobs",
		kr_introductions_status(server->sessions->introductions, NULL, kr_clock_ns()));
	return object;
}

/* The sums of the server's own time, for traces of nodes (fuse/ops/io_trace_format.h).  Every user may know them. */
static json_t *load_status(void)
{
	json_t *object = kr_process_status();

	json_object_set_new(object, "disk_ms", integer(kr_blocked_ns() / KR_NS_PER_MS));
	return object;
}

static void status_send(struct kr_server *server, struct kr_conn *conn, uint64_t id,
	const struct kr_status_request *request, const struct kr_key *key)
{
	json_t *object;
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	if (strcmp(request->what, "load") == 0) {
		object = load_status();
	} else if (strcmp(request->what, "status") == 0) {
		object = key && key->owner.kind == KR_KEY_USER ? status_for(server, &key->owner) : whole_status(server);
	} else {
		kr_conn_reply(conn, KR_MSG_STATUS, id, 0, -EOPNOTSUPP, NULL, NULL, 0);
		return;
	}
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (!text) {
		kr_conn_reply(conn, KR_MSG_STATUS, id, 0, -ENOMEM, NULL, NULL, 0);
		return;
	}
	length = strlen(text);
	for (size_t position = 0; position == 0 || position < length; position += PIECE) {
		size_t piece = KR_MIN(length - position, (size_t)PIECE);
		struct kr_status_reply reply = {.json = {(const uint8_t *)text + position, (uint32_t)piece}};
		uint16_t flags = position + piece < length ? KR_FRAME_MORE : 0;

		kr_conn_reply(conn, KR_MSG_STATUS, id, flags, 0, &reply, NULL, 0);
	}
}

static void handle_status(struct kr_request *request)
{
	struct kr_conn *conn = request->session->conn;

	if (conn)
		status_send(
			request->server, conn, request->id, &request->msg.status_request, request->session->trust.key);
	kr_request_drop(request);
}

void kr_status_register(struct kr_server *server)
{
	server->sessions->hooks.status = status_send;
	kr_server_on(server, KR_MSG_STATUS, handle_status, KR_HANDLER_IN_GRACE);
}
