/* See invalidation.h. */
#include "server/leases/invalidation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/rpc/attr_cache.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation_table.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

struct kr_invalidation {
	struct kr_invalidation_table table;
	bool allowed;
	uint64_t granted, asked, notified;
};

/* An INVALIDATE until the node answers. */
struct sent_invalidation {
	struct kr_link link; /* of its request's */
	struct kr_request *request;
	struct kr_session *session; /* lives while its callback is unanswered */
	uint64_t ask;
};

/* Whether the node may cache attributes; a node that still reclaims looks nothing up. */
static bool caches_attrs(const struct kr_session *session)
{
	return !session->recovery.reclaiming && !session->dead;
}

static uint64_t now_ms(void)
{
	return kr_clock_ns() / KR_NS_PER_MS;
}

/* --- asking others ---------------------------------------------------------------------------- */

static void go_on(struct kr_request *request)
{
	struct kr_invalidation_set *change = &request->invalidation;
	struct kr_invalidation_table *table = &request->server->invalidation->table;
	void (*next)(struct kr_request *) = change->next;

	for (uint32_t i = 0; i < change->count; i++) {
		if (change->asked[i]) {
			/* The request's own node may share a bit with other nodes. */
			kr_invalidation_table_answered(table, change->buckets[i],
				change->asked[i] & ~kr_attr_cache_node_bit(request->session->node));
			kr_invalidation_table_defer(table, change->buckets[i], request->session->node, now_ms());
		}
		change->asked[i] = 0;
	}
	request->cancel = NULL;
	change->next = NULL;
	next(request);
}

static void end_sent(struct sent_invalidation *sent)
{
	kr_list_remove(&sent->link);
	free(sent);
}

static void answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct sent_invalidation *sent = context;
	struct kr_request *request = sent->request;

	/* Any answer will do.  An ended session has no cache; a node that does not know INVALIDATE caches nothing. */
	(void)session, (void)err, (void)reply;
	end_sent(sent);
	if (kr_list_empty(&request->invalidation.unanswered))
		go_on(request);
}

static void cancel_waiting(struct kr_request *request)
{
	struct sent_invalidation *sent;

	while ((sent = KR_LIST_POP(&request->invalidation.unanswered, struct sent_invalidation, link))) {
		kr_callback_abandon(sent->session, sent->ask, request->session);
		end_sent(sent);
	}
	for (uint32_t i = 0; i < request->invalidation.count; i++)
		request->invalidation.asked[i] = 0; /* the nodes may have new grants by the time they answer */
}

static void ask(struct kr_request *request, struct kr_session *session, uint32_t bucket)
{
	struct kr_invalidate_request msg = {.bucket = bucket};
	struct kr_invalidation *invalidation = request->server->invalidation;
	struct sent_invalidation *sent = kr_xcalloc(1, sizeof(*sent));

	sent->request = request;
	sent->session = session;
	sent->ask = kr_callback_send(session, KR_MSG_INVALIDATE, &msg, answered, sent);
	if (!sent->ask) {
		free(sent);
		return;
	}
	invalidation->asked++;
	kr_list_append(&request->invalidation.unanswered, &sent->link);
}

/* -1: BUCKET is not among them. */
static int find_bucket(const struct kr_invalidation_set *change, uint32_t bucket)
{
	for (uint32_t i = 0; i < change->count; i++) {
		if (change->buckets[i] == bucket)
			return (int)i;
	}
	return -1;
}

static bool has_bucket(const struct kr_invalidation_set *change, uint32_t bucket)
{
	return find_bucket(change, bucket) >= 0;
}

void kr_invalidation_change(struct kr_request *request, const struct kr_fid *fid)
{
	struct kr_invalidation_set *change = &request->invalidation;
	uint32_t bucket = kr_attr_cache_bucket(fid), i = change->count;
	uint64_t holders;
	struct kr_session *session;

	if (has_bucket(change, bucket))
		return;
	assert(i < KR_ATTR_CACHE_CHANGE_MAX);
	change->buckets[i] = bucket;
	change->asked[i] = 0;
	change->count++;
	holders = kr_invalidation_table_begin(&request->server->invalidation->table, bucket, now_ms());
	if (!holders)
		return;
	KR_LIST_FOR_EACH(session, &request->server->sessions->living, link) {
		if (session != request->session && caches_attrs(session) &&
			holders & kr_attr_cache_node_bit(session->node))
			ask(request, session, bucket);
	}
	change->asked[i] = holders & ~kr_attr_cache_node_bit(request->session->node);
}

/* Goes on when all nodes that were asked have answered. */
static void wait(struct kr_request *request, void (*next)(struct kr_request *))
{
	request->invalidation.next = next;
	if (kr_list_empty(&request->invalidation.unanswered))
		go_on(request);
}

/* --- what requests change --------------------------------------------------------------------- */

void kr_invalidation_on(struct kr_server *server, uint16_t type, void (*changes)(struct kr_request *),
	uint16_t (*grants)(struct kr_request *, int, const void *))
{
	struct kr_handler *handler = &server->handlers[type];

	assert(handler->handle && !handler->changes && !handler->grants);
	handler->changes = changes;
	handler->grants = grants;
}

void kr_invalidation_changes(struct kr_server *server, uint16_t type, size_t fid_offset)
{
	struct kr_handler *handler = &server->handlers[type];

	assert(handler->handle && handler->changed_fid_count < KR_ARRAY_SIZE(handler->changed_fids));
	handler->changed_fids[handler->changed_fid_count++] = fid_offset;
}

static void begin_request(struct kr_request *request, void (*next)(struct kr_request *))
{
	const struct kr_handler *handler = &request->server->handlers[request->type];

	request->invalidation.since = request->server->invalidation->table.moment;
	request->cancel = cancel_waiting;
	for (unsigned i = 0; i < handler->changed_fid_count; i++)
		kr_invalidation_change(request, (const void *)((const char *)&request->msg + handler->changed_fids[i]));
	if (handler->changes)
		handler->changes(request);
	wait(request, next);
}

void kr_invalidation_also(struct kr_request *request, const struct kr_fid *fid, void (*next)(struct kr_request *))
{
	assert(!request->cancel);
	kr_invalidation_change(request, fid);
	request->invalidation.also |= 1u << find_bucket(&request->invalidation, kr_attr_cache_bucket(fid));
	wait(request, next);
}

/* --- telling ---------------------------------------------------------------------------------- */

/* The frames of a connection stay in order.  A node without a connection has dropped its cache, or does when it
 * reconnects. */
static void tell(struct kr_invalidation *invalidation, const struct kr_session *session, uint32_t bucket)
{
	struct kr_invalidate_request msg = {.bucket = bucket};

	if (!caches_attrs(session) || !session->conn)
		return;
	invalidation->notified++;
	kr_conn_oneway(session->conn, KR_MSG_INVALIDATE, &msg, NULL, 0);
}

static void tell_bits(struct kr_server *server, uint32_t bucket, uint64_t bits)
{
	struct kr_session *session;

	bits = kr_invalidation_table_notify(&server->invalidation->table, bucket, bits);
	if (!bits)
		return;
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (bits & kr_attr_cache_node_bit(session->node))
			tell(server->invalidation, session, bucket);
	}
}

void kr_invalidation_change_begins(struct kr_server *server, const struct kr_fid *fid)
{
	kr_invalidation_table_begin(&server->invalidation->table, kr_attr_cache_bucket(fid), now_ms());
}

void kr_invalidation_change_ends(struct kr_server *server, const struct kr_fid *fid)
{
	uint32_t bucket = kr_attr_cache_bucket(fid);

	tell_bits(server, bucket, UINT64_MAX);
	kr_invalidation_table_end(&server->invalidation->table, bucket);
}

void kr_invalidation_all_changed(struct kr_server *server)
{
	const struct kr_session *session;

	kr_invalidation_table_end_all(&server->invalidation->table);
	KR_LIST_FOR_EACH(session, &server->sessions->living, link)
		tell(server->invalidation, session, KR_ATTR_CACHE_ALL);
}

/* --- replies ---------------------------------------------------------------------------------- */

uint16_t kr_invalidation_grant(struct kr_request *request, const struct kr_fid *fid)
{
	const struct kr_invalidation_set *change = &request->invalidation;
	struct kr_invalidation *invalidation = request->server->invalidation;
	uint32_t bucket = kr_attr_cache_bucket(fid);

	if (!kr_invalidation_table_grant(&invalidation->table, bucket, request->session->node, change->since,
		    has_bucket(change, bucket), now_ms()))
		return 0;
	invalidation->granted++;
	return KR_FRAME_CACHEABLE;
}

static void end_change(struct kr_request *request)
{
	struct kr_invalidation_set *change = &request->invalidation;

	assert(kr_list_empty(&change->unanswered));
	while (change->count > 0)
		kr_invalidation_table_end(&request->server->invalidation->table, change->buckets[--change->count]);
}

static uint16_t end_with_reply(struct kr_request *request, int err, const void *msg)
{
	struct kr_server *server = request->server;
	const struct kr_session *session = request->session;
	const struct kr_handler *handler = &server->handlers[request->type];
	bool knows = handler->flags & KR_HANDLER_CHANGES_NAMES && !request->effect.folds &&
		session->connections == request->connection;
	uint16_t flags = 0;

	for (uint32_t i = 0; i < request->invalidation.count; i++) {
		if (!knows || request->invalidation.also & 1u << i)
			tell_bits(server, request->invalidation.buckets[i], kr_attr_cache_node_bit(session->node));
	}
	if (handler->grants && caches_attrs(session) && session->conn && server->invalidation->allowed &&
		!server->sessions->grace.active && !server->export_lost)
		flags = handler->grants(request, err, msg);
	end_change(request);
	if (handler->flags & KR_HANDLER_CHANGES_ALL && !err)
		kr_invalidation_all_changed(server);
	return flags;
}

static void drop_request(struct kr_request *request)
{
	cancel_waiting(request);
	end_change(request);
}

/* --- the rest --------------------------------------------------------------------------------- */

bool kr_invalidation_others_cache(struct kr_server *server, const struct kr_fid *fid, uint32_t node)
{
	uint64_t holders =
		kr_invalidation_table_holders(&server->invalidation->table, kr_attr_cache_bucket(fid), now_ms());
	const struct kr_session *session;

	if (!holders)
		return false;
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session->node != node && caches_attrs(session) && holders & kr_attr_cache_node_bit(session->node))
			return true;
	}
	return false;
}

void kr_invalidation_init(struct kr_server *server)
{
	server->invalidation = kr_xcalloc(1, sizeof(*server->invalidation));
	kr_invalidation_table_init(&server->invalidation->table);
	server->sessions->hooks.invalidation =
		(struct kr_invalidation_hooks){.wait = begin_request, .reply = end_with_reply, .drop = drop_request};
}

void kr_invalidation_fini(struct kr_server *server)
{
	if (!server->invalidation)
		return;
	kr_invalidation_table_fini(&server->invalidation->table);
	free(server->invalidation);
	server->invalidation = NULL;
}

void kr_invalidation_allow(struct kr_server *server, bool allow)
{
	server->invalidation->allowed = allow;
}

json_t *kr_invalidation_status(const struct kr_server *server)
{
	const struct kr_invalidation *invalidation = server->invalidation;

	return json_pack("{s:b,s:I,s:I,s:I}", "allowed", invalidation->allowed, "granted",
		(json_int_t)invalidation->granted, "asked", (json_int_t)invalidation->asked, "told",
		(json_int_t)invalidation->notified);
}
