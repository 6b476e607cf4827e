/* The duplicate request cache (request_cache.h): what is remembered of each request, and what a repetition gets. */
#include "server/recovery/request_cache.h"

#include <stdio.h>

#include "server/leases/attrs.h"
#include "server/recovery/executed_log.h"
#include "server/export/export.h"
#include "server/base/fid.h"
#include "server/base/server.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"
#include "server/base/state.h"

static bool is_to_be_remembered(const struct kr_request *request)
{
	switch (request->type) {
	case KR_MSG_SETATTR:
	case KR_MSG_MAKE:
	case KR_MSG_LINK:
	case KR_MSG_REMOVE:
	case KR_MSG_RENAME:
	case KR_MSG_FALLOCATE:
	case KR_MSG_COPY:
	case KR_MSG_SETXATTR:
	case KR_MSG_REMOVEXATTR:
		return true;
	case KR_MSG_OPEN:
		return request->msg.open_request.flags & KR_OPEN_TRUNC;
	case KR_MSG_CREATE:
		return request->msg.create_request.flags & KR_OPEN_TRUNC || request->msg.create_request.exclusive;
	default:
		return false;
	}
}

static struct kr_executed_key key_of(const struct kr_request *request)
{
	struct kr_executed_key key = {.incarnation = request->session->incarnation, .request = request->id};

	memcpy(key.node_id, request->session->node_id, sizeof(key.node_id));
	return key;
}

/* Of those that make no file, but of a name what only one can: see kr_request_cache_by_other. */
static uint64_t name_value_of(const struct kr_request *request)
{
	const union kr_any_msg *msg = &request->msg;

	switch (request->type) {
	case KR_MSG_LINK:
		return kr_intent_value(KR_INTENT_LINK, &msg->link_request.parent, msg->link_request.name);
	case KR_MSG_REMOVE:
		return kr_intent_value(KR_INTENT_REMOVE, &msg->remove_request.parent, msg->remove_request.name);
	case KR_MSG_RENAME: /* two that are exchanged stay */
		return msg->rename_request.flags & RENAME_EXCHANGE ?
			0 :
			kr_intent_value(KR_INTENT_RENAME, &msg->rename_request.parent, msg->rename_request.name);
	default:
		return 0;
	}
}

/* The part of the answer, or of the change of a name, that the log remembers.  0 for a file that was there before: only
 * a caller that made the file may open it again whatever its mode is. */
static uint64_t value_of(const struct kr_request *request)
{
	switch (request->type) {
	case KR_MSG_COPY:
		return request->reply.copy_reply.copied;
	case KR_MSG_MAKE:
		return kr_fid_hash(&request->reply.make_reply.file);
	case KR_MSG_CREATE:
		return request->reply.create_reply.created ? kr_fid_hash(&request->reply.create_reply.file) :
							     request->duplicate.made;
	default:
		return name_value_of(request);
	}
}

static void end(struct kr_request *request, int err, uint64_t value)
{
	struct kr_executed_key key = key_of(request);

	request->duplicate.executed = true;
	request->duplicate.executed_err = err;
	request->duplicate.executed_value = value;
	kr_executed_end(request->server->recovery->executed, &key, err, value);
}

void kr_request_cache_end(struct kr_request *request, int err)
{
	if (request->duplicate.remembered)
		end(request, err, err ? 0 : value_of(request));
}

/* --- changes of names ------------------------------------------------------------------------- */

static void intent_begins(struct kr_intent *intent, const struct kr_intent_change *change)
{
	struct kr_request *request = KR_CONTAINER_OF(intent, struct kr_request, duplicate.intent);
	struct kr_executed_key key = key_of(request);

	kr_executed_intent(request->server->recovery->executed, &key, change);
}

/* After an error the names are unchanged.  Whether it means success is decided later (names.h). */
static void intent_ends(struct kr_intent *intent, int err, uint64_t after)
{
	struct kr_request *request = KR_CONTAINER_OF(intent, struct kr_request, duplicate.intent);
	struct kr_executed_key key = key_of(request);

	if (err)
		kr_executed_no_intent(request->server->recovery->executed, &key,
			request->duplicate.had_intent             ? KR_EXECUTED_INTENT :
				request->duplicate.maybe_executed ? KR_EXECUTED_DOUBT :
								    KR_EXECUTED_BEGUN);
	else
		end(request, 0, after ? after : name_value_of(request));
}

bool kr_request_cache_made_by_other(const struct kr_request *request, const struct kr_fid *fid)
{
	struct kr_executed_key key = key_of(request);

	return kr_executed_by_other(request->server->recovery->executed, &key, kr_fid_hash(fid));
}

bool kr_request_cache_by_other(const struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);
	uint64_t value = name_value_of(request);

	return value && !request->duplicate.had_intent &&
		kr_executed_by_other(request->server->recovery->executed, &key, value);
}

static void run(struct kr_request *request)
{
	request->duplicate.intent.begin = intent_begins;
	request->duplicate.intent.end = intent_ends;
	kr_intent_take(request->duplicate.remembered && !request->duplicate.made ?
			&request->duplicate.intent :
			NULL); /* what it has made is remembered already */
	request->job.run(request);
	kr_intent_take(NULL);
}

/* Whether all of its effect that a repetition could spoil is a change of a name. */
static bool is_change_of_name(const struct kr_request *request)
{
	switch (request->type) {
	case KR_MSG_MAKE:
	case KR_MSG_LINK:
	case KR_MSG_REMOVE:
	case KR_MSG_RENAME:
	case KR_MSG_CREATE:
		return true;
	default:
		return false;
	}
}

static void reply_attr(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr && request->type == KR_MSG_SETATTR)
		request->reply.setattr_reply.attr = *attr;
	else if (attr && request->type == KR_MSG_FALLOCATE)
		request->reply.fallocate_reply.attr = *attr;
	else if (attr)
		request->reply.link_reply.attr = *attr;
	kr_request_reply_job(request);
}

/* Answers as the first execution did.  False: the handler has still to look up the file that was made. */
static bool answer(struct kr_request *request, uint64_t value)
{
	/* The node cannot withdraw a request that waits for attributes: the log would remember the withdrawal
	 * instead. */
	request->effect.committed =
		request->type == KR_MSG_SETATTR || request->type == KR_MSG_FALLOCATE || request->type == KR_MSG_LINK;
	switch (request->type) {
	case KR_MSG_OPEN:
		request->msg.open_request.flags &= ~(uint32_t)KR_OPEN_TRUNC;
		return false;
	case KR_MSG_CREATE:
		request->msg.create_request.flags &= ~(uint32_t)KR_OPEN_TRUNC;
		request->duplicate.made = value;
		return false;
	case KR_MSG_MAKE:
		request->duplicate.made = value;
		return false;
	case KR_MSG_SETATTR:
		kr_attrs_get(request, &request->msg.setattr_request.file, true, reply_attr);
		return true;
	case KR_MSG_FALLOCATE:
		kr_attrs_get(request, &request->msg.fallocate_request.file, true, reply_attr);
		return true;
	case KR_MSG_LINK:
		request->reply.link_reply.file = request->msg.link_request.file;
		kr_attrs_get(request, &request->msg.link_request.file, true, reply_attr);
		return true;
	case KR_MSG_COPY:
		request->reply.copy_reply.copied = value;
		kr_request_reply_job(request);
		return true;
	default:
		kr_request_reply_job(request);
		return true;
	}
}

/* Whether REQUEST, which the log lacks, may have been executed.  Never so for a late node (request_cache.h).
 * The log must go back to when REQUEST was sent.  The first instance of a boot begins it; if that instance ended in its
 * grace period, nodes send the next one what they had sent before the boot. */
static bool may_be_forgotten(const struct kr_request *request, const struct kr_executed_key *key)
{
	struct kr_executed *executed = request->server->recovery->executed;

	return request->session->recovery.lapse.kind == KR_LAPSE_NONE &&
		!(kr_executed_was_complete(executed) && kr_executed_never(executed, key));
}

/* --- requests that outlive their session ------------------------------------------------------ */

static uint64_t hash(const struct kr_executed_key *key)
{
	return kr_hash_bytes(key, sizeof(*key));
}

static void outlives(struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);

	if (!request->duplicate.remembered || request->duplicate.outlives)
		return;
	request->duplicate.outlives = true;
	kr_table_insert(&request->server->sessions->outliving, &request->duplicate.by_key, hash(&key));
}

static void begin(struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);

	if (request->duplicate.remembered || !is_to_be_remembered(request))
		return;
	request->duplicate.remembered = true;
	if (request->duplicate.resent)
		kr_executed_begin_again(request->server->recovery->executed, &key, request->duplicate.maybe_executed);
	else
		kr_executed_begin(request->server->recovery->executed, &key);
	if (request->session->dead)
		outlives(request);
}

/* The repetition's session has ended, too: the node sends it once more in its next session, or has given it up. */
static void stop_waiting(struct kr_request *repetition)
{
	kr_list_remove(&repetition->wait);
	kr_request_drop(repetition);
}

/* The node cannot withdraw a repetition that waits: "withdrawn" would mean that nothing has happened. */
static bool waits_for_the_first(struct kr_request *repetition, const struct kr_executed_key *key)
{
	struct kr_request *first;

	KR_TABLE_FOR_EACH_OF(first, &repetition->server->sessions->outliving, hash(key), duplicate.by_key) {
		struct kr_executed_key own = key_of(first);

		if (memcmp(&own, key, sizeof(own)) == 0) {
			repetition->hurry = stop_waiting;
			kr_list_append(&first->duplicate.repetitions, &repetition->wait);
			return true;
		}
	}
	return false;
}

/* REQUEST was executed with the result ERR and VALUE. */
static bool settle(struct kr_request *request, int err, uint64_t value)
{
	request->duplicate.remembered = true;
	if (!err)
		return answer(request, value);
	kr_request_reply(request, err, NULL, NULL, 0);
	return true;
}

/* The log may have forgotten FIRST meanwhile (executed_log.h). */
static void go_on(struct kr_request *repetition, const struct kr_request *first)
{
	repetition->hurry = NULL;
	if (!first->duplicate.executed)
		kr_request_handle(repetition);
	else if (!settle(repetition, first->duplicate.executed_err, first->duplicate.executed_value))
		repetition->server->handlers[repetition->type].handle(repetition);
}

static void over(struct kr_request *request)
{
	struct kr_request *repetition;

	if (request->duplicate.outlives)
		kr_table_remove(&request->server->sessions->outliving, &request->duplicate.by_key);
	while ((repetition = KR_LIST_POP(&request->duplicate.repetitions, struct kr_request, wait)))
		go_on(repetition, request);
}

static bool settled(struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);
	uint64_t value = 0;
	int err = 0;

	if (!is_to_be_remembered(request))
		return false;
	request->duplicate.resent = true;
	if (waits_for_the_first(request, &key))
		return true;
	switch (kr_executed_find(request->server->recovery->executed, &key, &err, &value)) {
	case KR_EXECUTED_DONE:
		return settle(request, err, value);
	case KR_EXECUTED_BEGUN:
		/* The former instance ended, or the request was withdrawn.  A change of a name was not made then.
		 * Other effects are DONE before another node can see them, so to repeat them does no harm. */
		if (is_change_of_name(request))
			request->duplicate.maybe_executed = false;
		break;
	case KR_EXECUTED_INTENT:
		/* intent_recovery.h could not tell.  If the name stands for the same file as before, the change was not
		 * made, or to make it again does no harm.  Else it was made. */
		request->duplicate.intent.expected = value;
		request->duplicate.had_intent = true;
		if (request->type == KR_MSG_CREATE) /* there was no file to truncate; one that is there may be another
						       node's */
			request->msg.create_request.flags &= ~(uint32_t)KR_OPEN_TRUNC;
		break;
	case KR_EXECUTED_DOUBT:
		break;
	case KR_EXECUTED_UNKNOWN:
		request->duplicate.maybe_executed = may_be_forgotten(request, &key);
		break;
	}
	return false;
}

void kr_request_cache_register(struct kr_server *server)
{
	server->sessions->hooks.request_cache = (struct kr_request_cache_hooks){
		.settled = settled,
		.begin = begin,
		.run = run,
		.end = kr_request_cache_end,
		.outlives = outlives,
		.over = over,
	};
}
