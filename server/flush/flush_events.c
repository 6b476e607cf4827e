/* What happens to running rounds from outside: their streams, sessions that end, time that goes by (see data_state.h).
 *
 * Loop thread.  Each tells the machines that it concerns and carries out what they want.
 */
#include "server/flush/flush_priv.h"

#include "common/base/log.h"
#include "server/flush/round_stream.h"

void kr_flush_received(struct kr_sfile *file, uint64_t round)
{
	file->data->received_ns = kr_clock_ns();
	kr_rounds_received(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_broken(struct kr_sfile *file, uint64_t round)
{
	kr_rounds_broken(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_failed(struct kr_sfile *file, uint64_t round, int err)
{
	file->data->owner->counters.failed_rounds++;
	kr_rounds_failed(&file->data->rounds, round, err);
	kr_flush_execute(file);
}

void kr_flush_drained(struct kr_sfile *file, uint64_t round)
{
	kr_flush_broken_off(file->data);
	kr_rounds_drained(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_session_lost(struct kr_data *data, struct kr_session *session)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		/* what this causes may end the next one's business, but this one is not idle before its last action */
		kr_rounds_lost(&item->rounds, session->node);
		kr_flush_update_hold_of(item->file); /* what it was to send again is not waited for any more */
	}
}

void kr_flush_update_hold_of(struct kr_sfile *file)
{
	kr_flush_hold(file->data);
	kr_flush_execute(file);
}

void kr_flush_update_hold(struct kr_data *data)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		kr_flush_update_hold_of(item->file);
	}
}

/* What is asked is answered when its session ends; no new round begins. */
void kr_flush_stop(struct kr_data *data)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		kr_rounds_hold(&item->rounds, true);
		kr_rounds_broken(&item->rounds, item->rounds.round);
		kr_flush_execute(item->file);
	}
}

bool kr_flush_quiet(const struct kr_data *data)
{
	const struct kr_sfile_data *item;

	KR_LIST_FOR_EACH(item, &data->busy, busy) {
		if (item->rounds.state != KR_ROUND_IDLE)
			return false;
	}
	return true;
}

void kr_flush_tick(struct kr_data *data, uint64_t now_ns)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		struct kr_round_stream *round_stream = item->round_stream;

		if (!round_stream && item->rounds.state == KR_ROUND_CHAIN &&
			now_ns >= item->received_ns + KR_DATA_STALL_MS * KR_NS_PER_MS) {
			kr_log_warn(
				"flush round %llu: all has come, but a node does not say up to where: the round is run again",
				(unsigned long long)item->rounds.round);
			kr_flush_broken(item->file, item->rounds.round);
			continue;
		}
		if (!round_stream || round_stream->paused || round_stream->jobs ||
			now_ns < round_stream->moved_ns + KR_DATA_STALL_MS * KR_NS_PER_MS)
			continue;
		kr_log_warn("flush round %llu: nothing has come for %d s; the round is run again",
			(unsigned long long)round_stream->round, KR_DATA_STALL_MS / 1000);
		kr_flush_broken(item->file, round_stream->round);
	}
}
