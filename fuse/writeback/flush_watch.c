/* Bytes that stay here for longer than they should: why, for status, and one line in the log when it begins and one
 * when it is over.  A request about them that the server leaves unanswered is named as such; what is known already
 * (refused, gone, no server) is not said again.  Loop thread.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/session/fence.h"
#include "fuse/writeback/flush_priv.h"
#include "fuse/base/options.h"

/* A file's bytes are late after so many times flush_age, but not before LATE_MS; an answer after so many lease times.
 */
enum { LATE_AGES = 4, LATE_MS = 10000, LATE_LEASES = 2 };

uint64_t kr_flush_dirty_since(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return kr_extent_map_empty(&file->dirty) ? 0 : file->flush->dirty_since_ns;
}

bool kr_flush_is_late(const struct kr_file *file, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t late_ms = KR_MAX(LATE_AGES * file->mount->options->flush_age, (uint64_t)LATE_MS);

	return since_ns && since_ns + late_ms * KR_NS_PER_MS < now_ns;
}

/* Without a server that could take them. */
static const char *why_nobody(const struct kr_file *file)
{
	if (!kr_rpc_connected(file->mount->rpc))
		return "there is no connection to the server";
	if (kr_flusher_of(file)->recovering)
		return "the session is being recovered";
	return kr_mount_fenced(file->mount) ? "the server is silent" : NULL;
}

static const char *why_lease(struct kr_file *file)
{
	const struct kr_lease_state *holder = &file->holder;

	KR_SCOPED_LOCK(&file->lock);
	if (kr_lease_state_may_flush(holder))
		return NULL;
	return holder->asked ? "the server has not granted the lease yet" : "the lease is being given up";
}

const char *kr_flush_why(struct kr_file *file, bool *ret_known)
{
	const struct kr_flush *flush = file->flush;
	const char *why;

	*ret_known = true;
	if (flush->late)
		return "they go to a conflict file";
	if (flush->plan.refused)
		return strerror(-flush->plan.refused);
	why = why_nobody(file);
	if (why)
		return why;
	if (!kr_list_empty(&flush->sends))
		return "the server has not answered the flush yet";
	why = why_lease(file);
	*ret_known = why && file->holder.asked; /* kr_rpc_watch */
	if (why)
		return why;
	return flush->plan.passing ? "the server says to try again" : "the flush is not due yet";
}

void kr_flush_watch(struct kr_file *file, uint64_t now_ns)
{
	struct kr_flush *flush = file->flush;
	uint64_t since_ns = kr_flush_dirty_since(file);
	struct kr_file_label label;
	const char *why;
	bool known;

	if (flush->said_ns && since_ns != flush->said_ns) {
		kr_log_info("%s: its bytes go to the server again, after %" PRIu64 " s", kr_file_label(file, &label),
			(now_ns - flush->said_ns) / KR_NS_PER_S);
		flush->said_ns = 0;
	}
	if (flush->said_ns || !kr_flush_is_late(file, since_ns, now_ns))
		return;
	why = kr_flush_why(file, &known);
	if (known)
		return;
	kr_log_warn("%s: unflushed for %" PRIu64 " s: %s", kr_file_label(file, &label),
		(now_ns - since_ns) / KR_NS_PER_S, why);
	flush->said_ns = since_ns;
}

/* A chain's bytes take as long as there are many: the server ends one in which nothing moves. */
static bool is_streaming(const struct kr_file *file)
{
	const struct kr_flush_send *send;

	KR_LIST_FOR_EACH(send, &file->flush->sends, link)
		if (send->chain)
			return true;
	return false;
}

static bool say(void *context, uint16_t type, const struct kr_fid *fid, uint64_t waited_ns, bool answered)
{
	struct kr_flusher *flusher = context;
	struct kr_file *file = kr_file_find(flusher->mount, fid);
	struct kr_file_label label = {"a file"};
	bool streaming = file && type == KR_MSG_FLUSH && is_streaming(file);

	if (file)
		kr_file_label(file, &label);
	if (answered)
		kr_log_info("%s: the server has answered %s after %" PRIu64 " s", label.text, kr_msg_name(type),
			waited_ns / KR_NS_PER_S);
	else if (!streaming)
		kr_log_warn("%s: the server has not answered %s for %" PRIu64 " s", label.text, kr_msg_name(type),
			waited_ns / KR_NS_PER_S);
	kr_file_put(file);
	return !streaming;
}

void kr_flush_watch_calls(struct kr_flusher *flusher)
{
	const struct kr_session_facts *facts = kr_session_facts(flusher->mount->session);

	kr_rpc_watch(flusher->mount->rpc, LATE_LEASES * facts->lease_ms * KR_NS_PER_MS, say, flusher);
}
