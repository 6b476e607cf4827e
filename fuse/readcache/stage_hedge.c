/* A stage whose upstream may be slow asks the member before that one beside it (ring/hedge.h).
 *
 *   no trial --KR_HEDGE_ASK--> REPARENT (silent) --reply--> HAVE to the member named, unless the upstream is silent
 *   HAVE --it has all that the upstream owes--> trial: what is wanted next is asked of it (`beside`)
 *   trial --KR_HEDGE_KEEP--> no trial
 *   trial --KR_HEDGE_BLAME--> REPARENT (slow) --reply--> another upstream
 *
 * A new upstream, for whatever reason, ends the trial and makes the answers to its questions void.  Loop thread.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/stage_priv.h"
#include "fuse/session/rpc.h"

enum { SILENT_FORMER = 2 }; /* ticks */

struct question {
	struct kr_stage *stage; /* reference */
	uint64_t choice;
	struct kr_upstream *hop; /* reference; of HAVE */
	size_t blocks;
};

static struct question *ask_about(struct kr_stage *stage, struct kr_upstream *hop)
{
	struct question *question = kr_xcalloc(1, sizeof(*question));

	*question = (struct question){.stage = kr_stage_ref(stage), .choice = stage->choice, .hop = hop};
	if (hop)
		hop->references++;
	return question;
}

static void free_question(struct question *question)
{
	kr_upstream_put(question->hop);
	kr_stage_unref(question->stage);
	free(question);
}

/* `beside` is asked nothing more. */
static void drop_beside(struct kr_stage *stage)
{
	kr_upstream_put(stage->beside);
	stage->beside = NULL;
}

void kr_stage_end_trial(struct kr_stage *stage)
{
	drop_beside(stage);
	kr_hedge_init(&stage->hedge);
	stage->choice++;
}

/* The trial is over, and the upstream stays.  The stage asks it for blocks of a tried member that has sent nothing. */
static void keep(struct kr_stage *stage)
{
	stage->mount->hops->compared = true;
	if (stage->beside && stage->hedge.there == 0)
		kr_puller_take_back(&stage->puller, stage->beside->id);
	drop_beside(stage);
	stage->choice++;
	kr_puller_set_upstream(&stage->puller, stage->upstream->id);
	kr_stage_advance(stage);
}

/* The trial goes on with HOP (takes its reference). */
static void try_hop(struct kr_stage *stage, struct kr_upstream *hop)
{
	if (stage->hedge.silent)
		kr_puller_take_back(&stage->puller, stage->upstream->id);
	if (stage->beside)
		kr_puller_take_back(&stage->puller, stage->beside->id);
	drop_beside(stage);
	stage->beside = hop;
	kr_puller_set_upstream(&stage->puller, hop->id);
	stage->puller.window += KR_HEDGE_WINDOW;
	kr_stage_advance(stage);
}

static void give_up(struct kr_stage *stage)
{
	kr_hedge_keep(&stage->hedge);
	keep(stage);
}

static void on_have(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct question *question = context;
	struct kr_stage *stage = question->stage;
	uint32_t owed = stage->upstream ? kr_puller_owed(&stage->puller, stage->upstream->id) : 0;

	(void)data;
	(void)more;
	if (stage->choice == question->choice) {
		stage->mount->hops->compared = true;
		if (err == 0 && owed > 0 && ((const struct kr_have_reply *)reply)->count == question->blocks) {
			kr_hedge_start(&stage->hedge, owed);
			question->hop->references++;
			try_hop(stage, question->hop);
		} else {
			kr_hedge_behind(&stage->hedge);
		}
	}
	free_question(question);
}

/* Asks HOP how many of the blocks it has that the upstream owes. */
static bool ask_what_it_has(struct kr_stage *stage, struct kr_upstream *hop)
{
	uint64_t blocks[KR_PULL_BATCH];
	struct kr_range ranges[KR_PULL_BATCH];
	struct kr_have_request request = {.file = stage->fid, .version = stage->version};
	size_t count = kr_puller_asked(&stage->puller, stage->upstream->id, blocks, KR_PULL_BATCH);
	struct kr_conn *conn = kr_upstream_conn(hop);
	struct question *question = ask_about(stage, hop);

	question->blocks = count;
	request.blocks = (struct kr_ranges){ranges, kr_stage_ranges(blocks, count, ranges)};
	if (conn && kr_conn_request(conn, KR_MSG_HAVE, &request, NULL, 0, on_have, question))
		return true;
	free_question(question);
	return false;
}

static void look_at(struct kr_stage *stage, struct kr_upstream *hop)
{
	uint32_t owed = kr_puller_owed(&stage->puller, stage->upstream->id);
	enum kr_hedge_begin begin = kr_hedge_begin(&stage->hedge, owed, hop->to.node == 0);

	if (begin == KR_HEDGE_STARTED) {
		hop->references++;
		try_hop(stage, hop);
	} else if (begin == KR_HEDGE_IF_AHEAD && !ask_what_it_has(stage, hop)) {
		give_up(stage);
	}
}

static void on_beside(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct question *question = context;
	struct kr_stage *stage = question->stage;
	struct kr_upstream *hop = NULL;

	(void)data;
	if (stage->choice == question->choice) {
		if (err == 0)
			hop = kr_upstream_get(stage->mount->hops, &((const struct kr_reparent_reply *)reply)->upstream);
		if (hop && hop != stage->upstream && hop != stage->beside)
			look_at(stage, hop);
		else
			give_up(stage);
		kr_upstream_put(hop);
	}
	free_question(question);
}

static void on_other(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct question *question = context;
	struct kr_stage *stage = question->stage;

	(void)data;
	if (stage->choice == question->choice) {
		const struct kr_hop_address *to =
			err == 0 ? &((const struct kr_reparent_reply *)reply)->upstream : NULL;

		if (to && to->node != stage->upstream->to.node) {
			kr_puller_take_back(&stage->puller, stage->upstream->id);
			kr_stage_take_upstream(stage, to);
		} else {
			give_up(stage);
		}
	}
	free_question(question);
}

static void ask(struct kr_stage *stage, const struct kr_upstream *slow, bool last)
{
	struct kr_reparent_request request = {
		.file = stage->fid, .node = slow->to.node, .complaint = last ? KR_COMPLAINT_SLOW : KR_COMPLAINT_SILENT};

	kr_rpc_call(stage->mount->rpc, KR_MSG_REPARENT, &request, NULL, 0, KR_RPC_READ_ONLY,
		last ? on_other : on_beside, ask_about(stage, NULL));
}

static void take(struct kr_stage *stage, enum kr_hedge_step step)
{
	if (step == KR_HEDGE_ASK) {
		ask(stage, stage->beside ? stage->beside : stage->upstream, false);
	} else if (step == KR_HEDGE_BLAME) {
		kr_log_info("upstream %s is slow: asking elsewhere", stage->upstream->to.address);
		ask(stage, stage->upstream, true);
	} else if (step == KR_HEDGE_KEEP) {
		keep(stage);
	}
}

/* The stage asks the present upstream for the blocks that silent former members owe. */
static void take_back_from_former(struct kr_stage *stage)
{
	struct kr_upstream *hop;
	bool any = false;

	KR_LIST_FOR_EACH(hop, &stage->mount->hops->outgoing, link) {
		if (hop->to.node == 0 || hop == stage->upstream || hop == stage->beside ||
			hop->silent_ticks < SILENT_FORMER || kr_puller_owed(&stage->puller, hop->id) == 0)
			continue;
		kr_puller_take_back(&stage->puller, hop->id);
		any = true;
	}
	if (any)
		kr_stage_advance(stage);
}

void kr_stage_hedge_tick(struct kr_stage *stage)
{
	const struct kr_hops *hops = stage->mount->hops;
	const struct kr_upstream *upstream, *beside;
	bool slow = !hops->compared || hops->rate * 3 < hops->best;
	uint32_t owed_beside;

	if (stage->puller.fetches.asked_count > 0)
		take_back_from_former(stage);
	upstream = stage->upstream;
	beside = stage->beside;
	if (!upstream || upstream->to.node == 0 || !kr_rpc_connected(stage->mount->rpc))
		return;
	owed_beside = beside ? kr_puller_owed(&stage->puller, beside->id) : 0;
	take(stage,
		kr_hedge_tick(&stage->hedge, kr_puller_owed(&stage->puller, upstream->id), owed_beside,
			upstream->silent_ticks > 0, slow));
}

void kr_stage_hedge_came(struct kr_stage *stage, const struct kr_upstream *hop)
{
	if (hop == stage->upstream || hop == stage->beside)
		take(stage, kr_hedge_came(&stage->hedge, hop == stage->beside));
}

void kr_stage_beside_lost(struct kr_stage *stage)
{
	give_up(stage);
}
