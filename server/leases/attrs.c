/* Attributes of files, with QUERYs to the nodes that write.
 *
 * First the server queries the holders of WRITE, then it calls stat.  The stat sees what a holder flushes in between.
 * In the other order both could miss those bytes.  The server starts over, ATTEMPTS_MAX times at most, if the file
 * changed meanwhile (after a truncation the answers describe a longer file), or if a queried session ended.
 */
#include "server/leases/attrs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

enum { ATTEMPTS_MAX = 100, AHEAD_S = 5 /* a node's estimate of the server's clock is more exact */ };

struct node_query;

/* One kr_attrs_get under way. */
struct get {
	struct kr_request *request;
	struct kr_sfile *file;
	bool query_writers;
	void (*fn)(struct kr_request *request, const struct kr_attr *attr);
	struct kr_list queries; /* unanswered */
	bool dirty, unanswered; /* a session ended without an answer; it may have a successor */
	uint64_t end;
	struct kr_time mtime;
	uint64_t changes, ended, cuts;
	uint64_t begun_ns;
	unsigned attempts;
	struct kr_attr attr;
};

struct node_query {
	struct kr_link link;
	struct get *get;
	struct kr_session *session; /* lives while its callback is unanswered */
	uint64_t ask;
	uint64_t since_ns; /* when this session, or its predecessor, was asked */
};

static void begin(struct get *get);

static void finish(struct get *get)
{
	struct kr_request *request = get->request;
	void (*fn)(struct kr_request *, const struct kr_attr *) = get->fn;
	struct kr_attr attr = get->attr;

	assert(kr_list_empty(&get->queries));
	kr_sfile_put(get->file);
	free(get);
	request->job_state = NULL;
	fn(request, request->err ? NULL : &attr);
}

static void run_stat(struct kr_request *request)
{
	struct get *get = request->job_state;

	request->err = kr_export_getattr(request->server->export, &get->file->fid, &get->attr);
	/* Nodes look up no name of the export's root: only so do they hear that it has no ACL. */
	if (!request->err && S_ISDIR(get->attr.mode))
		request->effect.no_xattrs = kr_export_bare(request->server->export, &get->file->fid);
}

/* A node may change the file each time just before it answers.  Then its answer was true during the query, and the
 * repetition ends. */
static bool takes_long(const struct get *get)
{
	return kr_clock_ns() - get->begun_ns >
		KR_SESSION_CALLBACK_LEASES * get->request->server->lease_ms * KR_NS_PER_MS;
}

static bool is_to_be_repeated(const struct get *get)
{
	const struct kr_sfile *file = get->file;

	if (get->request->err || get->request->session->dead || get->attempts >= ATTEMPTS_MAX)
		return false;
	return get->unanswered || ((file->cuts != get->cuts || file->ended != get->ended) && !takes_long(get));
}

/* A program set the time, and the writers flushed before that. */
static bool is_ahead(struct kr_time mtime)
{
	return mtime.sec > (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + AHEAD_S;
}

/* Makes the server's ATTR say what a flush of the writers' bytes, which end at END, would make of it.  Programs take a
 * file of 0 blocks for one hole (GNU tar --sparse); so what is behind the server's end counts as written. */
static void overlay_unflushed(struct kr_attr *attr, uint64_t end, struct kr_time mtime)
{
	const uint64_t grown = end > attr->size ? end - attr->size : 0;

	attr->version = 0;
	attr->size += grown;
	attr->blocks = KR_MAX(attr->blocks + (grown + 4095) / 4096 * 8, (uint64_t)8);
	if (kr_time_compare(mtime, attr->mtime) > 0 || is_ahead(attr->mtime))
		attr->mtime = mtime;
}

static void stat_done(struct kr_request *request)
{
	struct get *get = request->job_state;
	struct kr_sfile *file = get->file;

	if (is_to_be_repeated(get)) {
		begin(get);
		return;
	}
	if (!request->err) {
		kr_sfile_version(file, get->changes, &get->attr);
		if (get->dirty && S_ISREG(get->attr.mode)) /* only regular files have unflushed bytes */
			overlay_unflushed(&get->attr, get->end, get->mtime);
	}
	finish(get);
}

static void run_getattr_job(struct get *get)
{
	get->changes = get->file->changes;
	get->ended = get->file->ended;
	kr_request_run(get->request, run_stat, stat_done);
}

static bool begins(const struct kr_session *session)
{
	return kr_clock_ns() - session->expiry.begun_ns <= session->server->lease_ms * KR_NS_PER_MS;
}

/* A session that ends without an answer passes the debt on to its successor ... */
static void record_owed_reply(const struct node_query *query, bool answered)
{
	struct kr_attachment *attachment =
		answered && !begins(query->session) ? NULL : kr_attachment_find(query->get->file, query->session);

	if (attachment && answered)
		attachment->owed_size_ns = 0;
	else if (attachment && (!attachment->left_size_ns || query->since_ns < attachment->left_size_ns))
		attachment->left_size_ns = query->since_ns;
}

/* ... if the successor is asked right after its begin: later questions are of other requests. */
static uint64_t owed_since(const struct get *get, const struct kr_session *session)
{
	const struct kr_attachment *attachment = begins(session) ? kr_attachment_find(get->file, session) : NULL;

	return attachment && attachment->owed_size_ns ? attachment->owed_size_ns : kr_clock_ns();
}

static void query_answered(struct kr_session *session, void *context, int err, const void *message)
{
	struct node_query *query = context;
	struct get *get = query->get;
	const struct kr_query_reply *reply = message;

	(void)session;
	record_owed_reply(query, err != -ENOTCONN);
	kr_list_remove(&query->link);
	free(query);
	get->unanswered |= err == -ENOTCONN;
	if (!err && reply->dirty && reply->end <= INT64_MAX) { /* no file is larger */
		get->dirty = true;
		get->end = KR_MAX(get->end, reply->end);
		if (kr_time_compare(reply->mtime, get->mtime) > 0)
			get->mtime = reply->mtime;
	}
	if (kr_list_empty(&get->queries)) {
		get->request->cancel = get->request->hurry = NULL;
		run_getattr_job(get);
	}
}

static void ask(struct get *get, struct kr_session *session)
{
	struct kr_query_request msg = {.file = get->file->fid};
	struct node_query *query = kr_xcalloc(1, sizeof(*query));

	query->get = get;
	query->session = session;
	query->since_ns = owed_since(get, session);
	query->ask = kr_callback_send_long(session, KR_MSG_QUERY, &msg, query_answered, NULL, query, query->since_ns);
	if (query->ask)
		kr_list_append(&get->queries, &query->link);
	else
		free(query);
}

static void query_writers(struct get *get)
{
	struct kr_attachment *attachment;

	KR_LIST_FOR_EACH(attachment, &get->file->attachments, of_file) {
		struct kr_session *session = attachment->session;

		if (session != get->request->session &&
			(kr_lease_table_held(&get->file->leases, session->node) & KR_LEASE_WRITE))
			ask(get, session);
	}
}

static void withdraw_queries(struct get *get)
{
	struct node_query *query;

	while ((query = KR_LIST_POP(&get->queries, struct node_query, link))) {
		kr_callback_abandon(query->session, query->ask, get->request->session);
		free(query);
	}
}

static void cancel_stat(struct kr_request *request)
{
	struct get *get = request->job_state;

	withdraw_queries(get);
	kr_sfile_put(get->file);
	free(get);
	request->job_state = NULL;
}

/* The session that asked has ended. */
static void hurry_stat(struct kr_request *request)
{
	withdraw_queries(request->job_state);
	run_getattr_job(request->job_state);
}

static void begin(struct get *get)
{
	get->attempts++;
	get->cuts = get->file->cuts;
	get->dirty = get->unanswered = false;
	get->end = 0;
	get->mtime = (struct kr_time){.sec = INT64_MIN};
	if (get->query_writers && !get->request->session->dead)
		query_writers(get);
	if (kr_list_empty(&get->queries)) {
		run_getattr_job(get);
	} else if (get->request->effect.committed) {
		get->request->hurry = hurry_stat;
		/* Other nodes may build on the effect while the request waits: the server must not execute it again. */
		get->request->server->sessions->hooks.request_cache.end(get->request, 0);
	} else {
		get->request->cancel = cancel_stat;
	}
}

void kr_attrs_get(struct kr_request *request, const struct kr_fid *fid, bool query_writers,
	void (*fn)(struct kr_request *request, const struct kr_attr *attr))
{
	struct get *get = kr_xcalloc(1, sizeof(*get));

	assert(!request->job_state);
	get->request = request;
	get->file = kr_sfile_get(request->server, fid);
	get->query_writers = query_writers;
	get->fn = fn;
	get->begun_ns = kr_clock_ns();
	kr_list_init(&get->queries);
	request->job_state = get;
	begin(get);
}

bool kr_attrs_doubtful(struct kr_server *server, const struct kr_fid *fid, uint32_t node, uint64_t epoch)
{
	const struct kr_sfile *file = kr_sfile_find(server, fid);

	if (!file)
		return server->files->forgotten_epoch > epoch;
	return file->changing || file->changed_epoch > epoch ||
		kr_lease_table_others_hold(&file->leases, node, KR_LEASE_WRITE);
}

uint16_t kr_attrs_grant(struct kr_request *request, const struct kr_fid *fid)
{
	const struct kr_sfile *file = kr_sfile_find(request->server, fid);

	if (file &&
		(file->changing || kr_lease_table_others_hold(&file->leases, request->session->node, KR_LEASE_WRITE)))
		return 0;
	if (!kr_invalidation_grant(request, fid))
		return 0;
	return request->effect.no_xattrs ? KR_FRAME_CACHEABLE_ATTR | KR_FRAME_BARE : KR_FRAME_CACHEABLE_ATTR;
}

/* --- GETATTR ---------------------------------------------------------------------------------- */

static void reply_attr(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr)
		request->reply.getattr_reply.attr = *attr;
	kr_request_reply_job(request);
}

static void handle_getattr(struct kr_request *request)
{
	kr_attrs_get(request, &request->msg.getattr_request.file, true, reply_attr);
}

static uint16_t grant_getattr(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err ? 0 : kr_attrs_grant(request, &request->msg.getattr_request.file);
}

void kr_attrs_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_GETATTR, handle_getattr, 0);
	kr_invalidation_on(server, KR_MSG_GETATTR, NULL, grant_getattr);
}
