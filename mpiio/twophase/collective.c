/* See collective.h. */
#include "mpiio/twophase/collective.h"

#include <string.h>

#include "common/base/util.h"
#include "mpiio/twophase/mpi_library.h"
#include "mpiio/twophase/independent.h"
#include "mpiio/twophase/twophase.h"

/* Regions of the file that COUNT bytes of a view fall into, at most. */
static uint64_t count_runs(const struct kr_view *view, uint64_t count)
{
	uint64_t tile, runs;

	if (kr_view_contiguous(view))
		return 1;
	tile = kr_typemap_size(view->filetype);
	runs = kr_typemap_runs(view->filetype);
	if (__builtin_mul_overflow(runs, count / tile + (count % tile != 0), &runs))
		return UINT64_MAX;
	return KR_MAX(KR_MIN(runs, count), 1);
}

static int fill_record(struct kr_mpifile *file, const struct kr_access *access, struct kr_call_record *record)
{
	int err;

	record->count = access->count;
	record->ordered = access->ordered || access->count == 0;
	if (!access->ordered || access->count == 0)
		return 0;
	record->start = access->start;
	record->runs = count_runs(&access->view, access->count);
	err = kr_view_range(&access->view, access->start, access->count, &record->lo, &record->hi);
	return err < 0 ? err : kr_views_refer(&file->views, &access->view, &record->view);
}

/* Exchanges the records of all ranks.  On failure an error class of this rank alone. */
static int exchange_records(struct kr_plan *plan, int class)
{
	struct kr_mpifile *file = plan->file;
	struct kr_call_record own;

	memset(&own, 0, sizeof(own));                   /* the padding too: it goes over the network */
	if (class == MPI_SUCCESS && !file->aggregators) /* an earlier change of hints failed */
		class = MPI_ERR_NO_MEM;
	if (class == MPI_SUCCESS)
		class = kr_mpi_class(fill_record(file, plan->access, &own));
	own.class = class;
	own.exchanged = kr_write_order_was_exchanged(file);
	kr_write_order_where_alone(file, &own.alone_lo, &own.alone_hi);
	own.hints_changed = kr_file_hints_changed(file);
	return PMPI_Allgather(&own, sizeof(own), MPI_BYTE, plan->records, sizeof(own), MPI_BYTE, file->comm) ==
			MPI_SUCCESS ?
		MPI_SUCCESS :
		MPI_ERR_IO;
}

struct summary {
	int class;
	bool ordered, hints_changed, fresh, exchanged;
	bool interleaved;      /* some rank's bytes do not all lie behind those of the ranks before it */
	uint64_t shortest_run; /* the least average length of a rank's runs */
};

static struct summary summarise(struct kr_plan *plan)
{
	struct summary sum = {.class = MPI_SUCCESS, .ordered = true, .shortest_run = UINT64_MAX};

	plan->lo = plan->alone_lo = INT64_MAX;
	for (int rank = 0; rank < plan->file->ranks; rank++) {
		struct kr_call_record *record = &plan->records[rank];

		sum.class = KR_MAX(sum.class, record->class);
		sum.ordered &= record->ordered != 0;
		sum.hints_changed |= record->hints_changed != 0;
		sum.exchanged |= record->exchanged != 0;
		sum.fresh |= record->view.fresh != 0;
		if (record->alone_lo < record->alone_hi) {
			plan->alone_lo = KR_MIN(plan->alone_lo, record->alone_lo);
			plan->alone_hi = KR_MAX(plan->alone_hi, record->alone_hi);
		}
		plan->bytes += record->count;
		if (record->count == 0) /* so the ranges ascend with the ranks, unless they are interleaved */
			record->lo = record->hi = plan->hi;
		if (record->count == 0 || !record->ordered)
			continue;
		sum.interleaved |= record->lo < plan->hi;
		plan->lo = KR_MIN(plan->lo, record->lo);
		plan->hi = KR_MAX(plan->hi, record->hi);
		sum.shortest_run = KR_MIN(sum.shortest_run, record->count / record->runs);
	}
	return sum;
}

/* With bytes so far apart there would be very many rounds, and most would be almost empty. */
enum { SPARSE_SPAN = 1 << 30, SPARSE_FACTOR = 1024 };

static bool is_sparse(const struct kr_plan *plan)
{
	uint64_t span = (uint64_t)(plan->hi - plan->lo);

	return span > SPARSE_SPAN && span / SPARSE_FACTOR > plan->bytes;
}

/* RULE (kairan-mpiio(7)): two-phase I/O pays for its exchange by making long requests of short ones.  So it is left out
 * for ranks whose bytes lie behind each other's, so that no exchange makes their runs longer, for those whose own runs
 * are long already, for a single rank, and for reads by ranks of one node: the kernel has the bytes of all of them, and
 * the ranks copy in parallel.  But bytes that aggregators wrote just now, and may still have
 * on their nodes, are read through them. */
static enum kr_way choose_way(const struct kr_plan *plan, const struct summary *sum)
{
	const struct kr_hints *hints = &plan->file->hints;
	uint32_t wanted = plan->access->writing ? hints->write : hints->read;

	if (plan->bytes == 0)
		return KR_WAY_NOTHING;
	if (!sum->ordered || wanted == KR_DISABLE || is_sparse(plan))
		return KR_WAY_DIRECT;
	if (wanted == KR_AUTOMATIC && plan->file->ranks == 1)
		return KR_WAY_DIRECT;
	if (wanted == KR_AUTOMATIC && !plan->access->writing && plan->file->topology->nodes == 1)
		return KR_WAY_DIRECT;
	if (wanted == KR_AUTOMATIC && !plan->access->writing && sum->exchanged && plan->file->write_order.needed)
		return KR_WAY_TWO_PHASE;
	if (wanted == KR_AUTOMATIC && (!sum->interleaved || sum->shortest_run >= hints->direct_run))
		return KR_WAY_DIRECT;
	return KR_WAY_TWO_PHASE;
}

/* The first rank whose bytes end behind OFFSET; they are not interleaved. */
static int first_behind(const struct kr_plan *plan, int64_t offset)
{
	int low = 0, high = plan->file->ranks;

	while (low < high) {
		const int middle = low + (high - low) / 2;

		if (plan->records[middle].hi > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Some rank has written alone (write_order.h). */
static bool any_alone(const struct kr_plan *plan)
{
	return plan->alone_lo < plan->alone_hi;
}

/* Whether some rank's bytes may go over what another rank wrote alone. */
static bool meets_alone(const struct kr_plan *plan, const struct summary *sum)
{
	const int ranks = plan->file->ranks;

	if (!any_alone(plan) || (sum->ordered && (plan->lo >= plan->alone_hi || plan->hi <= plan->alone_lo)))
		return false;
	if (!sum->ordered || sum->interleaved)
		return true;
	for (int rank = 0; rank < ranks; rank++) {
		const struct kr_call_record *own = &plan->records[rank];

		for (int other = first_behind(plan, own->alone_lo);
			other < ranks && plan->records[other].lo < own->alone_hi; other++)
			if (other != rank && plan->records[other].count > 0)
				return true;
	}
	return false;
}

/* Gives a collective write its place after what ranks wrote before (write_order.h). */
static int order_write(const struct kr_plan *plan, const struct summary *sum)
{
	struct kr_mpifile *file = plan->file;
	const bool settle = plan->way == KR_WAY_TWO_PHASE ? any_alone(plan) : meets_alone(plan, sum);
	int class = settle && file->write_order.needed ? kr_write_order_settle(file) : MPI_SUCCESS;

	if (class == MPI_SUCCESS && plan->way == KR_WAY_TWO_PHASE)
		kr_write_order_exchange(file);
	return class;
}

/* Sends fresh views to the aggregators.  No rank may go on before all aggregators have them. */
static int tell_views(struct kr_plan *plan)
{
	struct kr_mpifile *file = plan->file;
	int err = kr_views_exchange(&file->views, file->comm, file->rank, &plan->records[0].view,
		sizeof(*plan->records), file->aggregators->rank, file->aggregators->count);

	return kr_file_agree(file, kr_mpi_class(err));
}

/* A limit for the memory and the messages of a call, also where many ranks access the same bytes. */
enum { ROUND_BYTES_MAX = 64 << 20 };

/* An aggregator handles one piece at a time; where ranks overlap it gets each byte several times. */
static uint64_t piece_size(const struct kr_plan *plan)
{
	uint64_t span = (uint64_t)(plan->hi - plan->lo), overlap = plan->bytes / span + 1;
	uint64_t piece = KR_MIN(plan->file->hints.cb_buffer_size, kr_file_stripe(plan->file));

	return KR_MAX(KR_MIN(piece, ROUND_BYTES_MAX / overlap), KR_MIN(piece, 65536));
}

static int prepare(struct kr_plan *plan, int class)
{
	struct kr_mpifile *file = plan->file;
	struct summary sum;
	int err;

	class = exchange_records(plan, class);
	if (class != MPI_SUCCESS)
		return class;
	sum = summarise(plan);
	if (sum.hints_changed && (class = kr_file_agree_hints(file)) != MPI_SUCCESS)
		return class;
	if (sum.hints_changed) /* all ranks have dropped their views */
		return -1;
	class = sum.class;
	if (class == MPI_SUCCESS && sum.fresh)
		class = tell_views(plan);
	if (class != MPI_SUCCESS) {
		if (sum.fresh) /* they count as sent, but did not reach all aggregators */
			kr_views_drop_sent(&file->views);
		return class;
	}
	plan->way = choose_way(plan, &sum);
	plan->relaxed = !any_alone(plan) && kr_write_order_was_exchanged(file);
	if (plan->access->writing && plan->way != KR_WAY_NOTHING && (class = order_write(plan, &sum)) != MPI_SUCCESS)
		return class;
	if (plan->way != KR_WAY_TWO_PHASE)
		return MPI_SUCCESS;
	err = kr_stripes_init(&plan->stripes, kr_file_stripe(file), piece_size(plan), file->aggregators->count,
		(uint64_t)plan->lo, (uint64_t)plan->hi);
	plan->rounds = err < 0 ? 0 : kr_stripes_rounds(&plan->stripes);
	return kr_mpi_class(err);
}

uint64_t kr_plan_share(const struct kr_plan *plan, int rank, int64_t lo, int64_t hi, uint64_t *ret_before)
{
	const struct kr_call_record *record = &plan->records[rank];
	struct kr_view view;
	uint64_t before, until;

	if (record->count == 0 || record->hi <= lo || record->lo >= hi)
		return 0;
	view = kr_plan_view(plan, rank);
	before = kr_view_bytes_below(&view, lo);
	until = kr_view_bytes_below(&view, hi);
	before = KR_MAX(before, record->start);
	until = KR_MIN(until, record->start + record->count);
	if (until <= before)
		return 0;
	*ret_before = before - record->start;
	return until - before;
}

struct kr_view kr_plan_view(const struct kr_plan *plan, int rank)
{
	return rank == plan->file->rank ? plan->access->view :
					  kr_views_get(&plan->file->views, rank, &plan->records[rank].view);
}

void kr_plan_trace(const struct kr_plan *plan, enum kr_trace_phase phase, uint64_t round, uint32_t slot,
	uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
	plan->file->tally.phase_ns[phase] += end_ns - start_ns;
	kr_trace_add(plan->file->trace,
		&(struct kr_trace_event){
			.op = plan->access->writing ? "write" : "read",
			.call = plan->call,
			.round = round,
			.slot = slot,
			.phase = phase,
			.start_ns = start_ns,
			.end_ns = end_ns,
			.bytes = bytes,
		});
}

void kr_plan_trace_exchange(struct kr_plan *plan, uint64_t round, uint64_t bytes)
{
	uint64_t now_ns = kr_clock_ns();

	kr_plan_trace(plan, KR_TRACE_EXCHANGE, round, (uint32_t)(round % plan->file->hints.slots), plan->mark_ns,
		now_ns, bytes);
	plan->mark_ns = now_ns;
}

void kr_plan_record(struct kr_plan *plan, int class)
{
	if (plan->class == MPI_SUCCESS)
		plan->class = class;
}

struct kr_slot *kr_plan_slot(const struct kr_plan *plan, uint64_t round)
{
	return &plan->slots->slots[round % plan->slots->count];
}

static int in_two_phases(struct kr_plan *plan, uint64_t *ret_done)
{
	struct kr_mpifile *file = plan->file;
	uint64_t done;

	plan->slots = file->sources ? &file->slots : NULL;
	plan->window = &file->window;
	plan->mark_ns = kr_clock_ns();
	plan->class = MPI_SUCCESS;
	file->slots.failed = false;
	plan->window->failed = MPI_SUCCESS;
	done = plan->access->writing ? kr_twophase_write(plan) : kr_twophase_read(plan);
	kr_plan_record(plan, plan->window->failed);
	*ret_done = plan->class == MPI_SUCCESS ? done : 0;
	return plan->class;
}

/* Does this rank's share of the work; all ranks have chosen the same way. */
static int carry_out(struct kr_plan *plan, uint64_t *ret_done)
{
	*ret_done = 0;
	switch (plan->way) {
	case KR_WAY_NOTHING:
		return MPI_SUCCESS;
	case KR_WAY_DIRECT:
		return kr_independent_direct(plan->file, plan->access, ret_done);
	case KR_WAY_TWO_PHASE:
		return in_two_phases(plan, ret_done);
	}
	return MPI_ERR_INTERN;
}

static void count_call(struct kr_plan *plan, uint64_t done, uint64_t start_ns)
{
	struct kr_tally *tally = &plan->file->tally;

	*(plan->access->writing ? &tally->writes : &tally->reads) += 1;
	*(plan->access->writing ? &tally->bytes_written : &tally->bytes_read) += done;
	tally->direct += plan->way == KR_WAY_DIRECT;
	tally->call_ns += kr_clock_ns() - start_ns;
}

int kr_collective_run(struct kr_mpifile *file, struct kr_access *access, int class, uint64_t *ret_done)
{
	struct kr_plan plan;
	uint64_t start_ns = kr_clock_ns();
	int prepared;

	do {
		plan = (struct kr_plan){.file = file, .access = access, .records = file->records, .call = file->calls};
		prepared = prepare(&plan, class);
	} while (prepared < 0);
	*ret_done = 0;
	if (prepared != MPI_SUCCESS)
		return prepared;
	file->calls++;
	kr_plan_trace(&plan, KR_TRACE_LISTS, 0, 0, start_ns, kr_clock_ns(), 0);
	class = carry_out(&plan, ret_done);
	if (plan.way != KR_WAY_NOTHING)
		class = kr_file_agree(file, class);
	count_call(&plan, *ret_done, start_ns);
	return class;
}
