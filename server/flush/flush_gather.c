/* Gathering: writers of one file tend to flush together (a collective close).
 *
 * Loop thread.  The first that asks for a chained round waits KR_DATA_GATHER_MS at most for the other holders of WRITE:
 * together they make one ascending stream, alone each would leave gaps.
 */
#include "server/flush/flush_priv.h"

void kr_flush_hold(struct kr_sfile_data *data)
{
	kr_rounds_hold(&data->rounds,
		data->owner->collecting || data->owner->stopping || kr_stable_restores(data->file) ||
			kr_link_linked(&data->gathering));
}

static size_t count_writers(const struct kr_sfile *file)
{
	const struct kr_lease_holder *holder;
	size_t count = 0;

	KR_LIST_FOR_EACH(holder, &file->leases.holders, link)
		count += (holder->kinds & KR_LEASE_WRITE) != 0;
	return count;
}

static void on_gather_timer(uv_timer_t *timer);

static void start_gather_timer(struct kr_data *data)
{
	uint64_t now = kr_clock_ns(), due;

	if (kr_list_empty(&data->gathering))
		return;
	due = KR_LIST_ENTRY(data->gathering.head.next, struct kr_sfile_data, gathering)->gather_ns;
	uv_timer_start(&data->gather_timer, on_gather_timer, due > now ? (due - now) / KR_NS_PER_MS + 1 : 0, 0);
}

static void end_gathering(struct kr_sfile_data *data)
{
	kr_list_remove(&data->gathering);
	kr_flush_hold(data);
	kr_flush_execute(data->file);
}

static void on_gather_timer(uv_timer_t *timer)
{
	struct kr_data *data = timer->data;
	struct kr_sfile_data *item, *after;
	uint64_t now = kr_clock_ns();

	KR_LIST_FOR_EACH_SAFE(item, after, &data->gathering, gathering) {
		if (item->gather_ns > now)
			break;
		end_gathering(item);
	}
	start_gather_timer(data);
}

void kr_flush_gather(struct kr_sfile *file, const struct kr_round_ask *ask)
{
	struct kr_sfile_data *data = file->data;

	if (ask->inlined || ask->single || ask->replay_round || !kr_rounds_idle(&data->rounds) ||
		kr_link_linked(&data->gathering) || count_writers(file) < 2)
		return;
	data->gather_ns = kr_clock_ns() + KR_DATA_GATHER_MS * KR_NS_PER_MS;
	kr_list_append(&data->owner->gathering, &data->gathering);
	start_gather_timer(data->owner);
}

void kr_flush_gathered(struct kr_sfile *file)
{
	if (kr_link_linked(&file->data->gathering) && kr_rounds_waiting(&file->data->rounds) >= count_writers(file))
		end_gathering(file->data);
}

void kr_flush_gather_init(struct kr_data *data)
{
	kr_list_init(&data->gathering);
	uv_timer_init(data->server->loop, &data->gather_timer);
	data->gather_timer.data = data;
}
