/* The server's requests about rounds: ROUND, ROUND_ABORT, STABLE, UNSTABLE.  A request may arrive again after its
 * handler has run. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* The send that a ROUND asks for; NULL: it has been given up. */
static struct kr_flush_send *asked_send(struct kr_file *file)
{
	struct kr_flush_send *send = file->flush->send;

	return send && send->call && !send->inlined ? send : NULL;
}

/* The stream's part is over; the FLUSH stays asked until its answer. */
static void stream_done(void *context, int err, bool own)
{
	struct kr_flush_send *send = context;

	send->chain = NULL;
	if (err && own)
		send->damaged = true;
}

/* The round of SEND came to nothing: the node drops its stream and its snapshot, and SEND waits for another round. */
static void forget_round(struct kr_flush_send *send)
{
	kr_chain_abort(send->chain);
	send->chain = NULL;
	send->round = 0;
	kr_journal_release_map(send->file->mount->journal, &send->extents);
}

static int begin_round(struct kr_flush_send *send, const struct kr_round_request *request)
{
	struct kr_chains *chains = send->file->mount->chains;
	int err;

	if (send->damaged)
		return -EIO;
	if (send->round != 0)
		forget_round(send);
	err = kr_flush_snapshot(send);
	if (err)
		return err;
	send->round = request->round;
	send->chain = kr_chain_start(chains, request, &send->extents, stream_done, send);
	if (!send->chain) {
		forget_round(send);
		return -ENOMEM;
	}
	return 0;
}

static void on_round(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_round_request *request = msg;
	struct kr_file *file = kr_file_find(mount, &request->file);
	struct kr_flush_send *send = file ? asked_send(file) : NULL;
	int err = send ? 0 : -ENOENT;

	(void)data;
	if (err == 0)
		err = KR_FAULT("flush.round");
	if (err == 0 && send->round != request->round)
		err = begin_round(send, request);
	if (err) {
		kr_rpc_answer(mount->rpc, down, err, NULL);
	} else {
		struct kr_round_reply reply = {.seq = send->seq, .mtime = send->mtime, .clear_suid = send->clear_suid};

		kr_rpc_answer(mount->rpc, down, 0, &reply);
	}
	kr_file_put(file);
}

static void on_round_abort(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_round_abort_request *request = msg;
	struct kr_file *file = kr_file_find(mount, &request->file);
	struct kr_flush_send *send = file ? file->flush->send : NULL;

	(void)data;
	if (send && send->round == request->round)
		forget_round(send);
	kr_chains_forget_round(mount->chains, &request->file, request->round);
	kr_rpc_answer(mount->rpc, down, 0, NULL);
	kr_file_put(file);
}

static void on_stable(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_stable_request *request = msg;
	struct kr_file *file = kr_file_find(mount, &request->file);

	(void)data;
	if (file)
		kr_flush_stable(file, request->round);
	kr_rpc_answer(mount->rpc, down, 0, NULL);
	kr_file_put(file);
}

static void on_unstable(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_unstable_request *request = msg;
	struct kr_file *file = kr_file_find(mount, &request->file);

	(void)data;
	if (file) {
		kr_log_warn("file %" PRIu64
			    ": the server failed to write what it had taken to its disk: %s; sending again",
			file->base.ino, strerror(-kr_status_to_errno(request->error)));
		kr_flush_unstable(file, down, request);
	} else {
		kr_rpc_answer(mount->rpc, down, 0, NULL);
	}
	kr_file_put(file);
}

void kr_flush_rounds_init(struct kr_mount *mount)
{
	kr_rpc_on(mount->rpc, KR_MSG_ROUND, on_round);
	kr_rpc_on(mount->rpc, KR_MSG_ROUND_ABORT, on_round_abort);
	kr_rpc_on(mount->rpc, KR_MSG_STABLE, on_stable);
	kr_rpc_on(mount->rpc, KR_MSG_UNSTABLE, on_unstable);
}
