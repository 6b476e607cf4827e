/* What a node does with its bytes when it is told, or not, what became of their file; the flusher around it is simulated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "fuse/file_priv.h"
#include "fuse/flush_priv.h"

static struct {
	int orphaned; /* why */
	unsigned abandoned, late, replays;
	struct kr_session_facts facts;
	struct kr_flusher flusher;
	struct kr_reclaim_request asked;
	unsigned asks, stepped, woken, references;
	struct kr_time now;
	bool told; /* the directory says that the bytes are uncovered */
	unsigned forgotten;
	struct kr_time listed_since;
	uint64_t listed_up_to;
	kr_rpc_fn answer; /* to a RECLAIM on its way; NULL: there is none */
	void *context;
} fake;

void kr_chains_session_lost(struct kr_chains *chains)
{
	(void)chains;
}
void kr_file_flushed(struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply, const struct kr_extent_map *sent)
{
	(void)file, (void)seq, (void)reply, (void)sent;
}
bool kr_uncovered_awaited(struct kr_uncovered_log *log, struct kr_file *file, struct kr_time since, uint64_t up_to)
{
	(void)log, (void)file;
	fake.listed_since = since;
	fake.listed_up_to = up_to;
	return !fake.told;
}
void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file)
{
	(void)log, (void)file;
	fake.forgotten++;
}
void kr_uncovered_recovered(struct kr_uncovered_log *log, struct kr_file *file, const struct kr_uncovered *uncovered)
{
	(void)log, (void)file, (void)uncovered;
}
const char *kr_file_label(const struct kr_file *file, struct kr_file_label *ret)
{
	(void)file, (void)ret;
	return "a file";
}
struct kr_file *kr_file_get(struct kr_file *file)
{
	fake.references++;
	return file;
}
struct kr_time kr_file_now(struct kr_mount *mount)
{
	(void)mount;
	return fake.now;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
	fake.references--;
}
struct kr_applied *kr_flush_add_applied(struct kr_file *file, struct kr_extent_map *extents, uint64_t seq, uint64_t round)
{
	(void)file, (void)extents, (void)seq, (void)round;
	return NULL;
}
bool kr_flush_busy(struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty);
}
void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason)
{
	(void)flusher, (void)do_file, (void)reason;
}
void kr_flush_forget_round(struct kr_flush_send *send)
{
	(void)send;
}
void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush.orphaned = true;
	fake.orphaned = err;
}
void kr_flush_send_abandon(struct kr_flush_send *send)
{
	kr_list_remove(&send->link);
	fake.abandoned++;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
	fake.woken++;
}
int kr_flush_send_replay(struct kr_file *file, struct kr_applied *applied, unsigned flags)
{
	(void)file, (void)applied, (void)flags;
	fake.replays++;
	return 0;
}
void kr_flush_settle(struct kr_file *file)
{
	(void)file;
}
void kr_flush_stable(struct kr_file *file, uint64_t round)
{
	(void)file, (void)round;
}
void kr_flush_watch_calls(struct kr_flusher *flusher)
{
	(void)flusher;
}
void kr_flush_step(struct kr_file *file)
{
	(void)file;
	fake.stepped++;
}
struct kr_flusher *kr_flusher_of(const struct kr_file *file)
{
	(void)file;
	return &fake.flusher;
}
void kr_late_begin(struct kr_file *file, uint8_t parts, const struct kr_attr *attr)
{
	(void)file, (void)parts, (void)attr;
	fake.late++;
}
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	(void)rpc, (void)slices, (void)count, (void)flags;
	if (type == KR_MSG_RECLAIM) {
		fake.asks++;
		fake.asked = *(const struct kr_reclaim_request *)msg;
		fake.answer = callback;
		fake.context = context;
	}
	return 0;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &fake.facts;
}
void kr_session_replayed(struct kr_session *session)
{
	(void)session;
}

struct fixture {
	struct kr_mount mount;
	struct kr_files files;
	struct kr_file file;
	struct kr_flush_send send; /* a flush in flight, of all that is dirty */
};

static int setup(void **state)
{
	static struct fixture f;

	memset(&fake, 0, sizeof(fake));
	f = (struct fixture){.file.mount = &f.mount, .mount.files = &f.files};
	kr_holder_init(&f.file.holder);
	pthread_mutex_init(&f.file.lock, NULL);
	kr_extent_map_init(&f.file.dirty);
	kr_list_init(&f.file.flush.applied);
	kr_list_init(&f.file.flush.sends);
	kr_list_append(&f.file.flush.sends, &f.send.link);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kr_extent_map_fini(&f->file.dirty);
	assert_int_equal(fake.references, 0);
	return 0;
}

static void write_some(struct fixture *f)
{
	struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 7};

	assert_int_equal(kr_extent_map_insert(&f->file.dirty, &extent, NULL, NULL), 0);
	f->send.seq = 7;
}

static void late_bytes_of_which_the_server_can_tell_nothing_are_kept_and_not_sent(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, -EIO);
	assert_int_equal(fake.abandoned, 1);
	assert_int_equal(fake.late, 0);
}

static void server_says(int err, const struct kr_reclaim_reply *reply)
{
	kr_rpc_fn answer = fake.answer;

	assert_non_null(answer);
	fake.answer = NULL;
	answer(fake.context, err, reply, NULL);
}

/* The server could not tell what becomes of the bytes; then it is asked, and has not answered yet. */
static void ask_again(struct fixture *f)
{
	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &(struct kr_reclaim_reply){0});
	f->file.flush.judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1);
}

/* Until it can tell; what others' changes are counted from does not move meanwhile. */
static void the_server_is_asked_again_what_it_could_not_tell(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	struct kr_reclaim_reply reply = {.conflict = KR_CONFLICT_DIRTY};

	write_some(f);
	fake.facts.late = true;
	f->file.base.ctime = (struct kr_time){.sec = 5};
	f->file.opens = 3;
	flush->plan.retry_ns = 1;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	f->file.base.ctime.sec = 9;
	assert_int_equal(kr_file_since(&f->file).sec, 5);
	kr_unjudged_step(&f->file);
	assert_null(fake.answer); /* not at once */
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.first, 7);
	assert_int_equal(fake.asked.last, 7);
	assert_int_equal(fake.asked.since.sec, 5);
	assert_int_equal(fake.asked.opens, 3);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1); /* one at a time */
	server_says(-EIO, NULL);
	assert_true(flush->unjudged && flush->orphaned);
	assert_int_equal(fake.late, 0);
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1); /* not at once again */
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	f->files.generation++; /* another session asked for itself, and could not be told either */
	server_says(0, &reply);
	assert_true(flush->unjudged && flush->orphaned);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	server_says(0, &reply);
	assert_false(flush->unjudged || flush->orphaned);
	assert_int_equal(flush->plan.retry_ns, 0); /* begins anew */
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.stepped, 1);
	assert_int_equal(fake.woken, 3);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_null(fake.answer);
}

static void what_is_opened_or_closed_meanwhile_is_not_counted_twice(void **state)
{
	struct fixture *f = *state;
	unsigned *const counts[] = {&f->file.opening, &f->file.closing};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &(struct kr_reclaim_reply){0});
	f->file.flush.judge_ns = 0;
	for (size_t i = 0; i < KR_ARRAY_SIZE(counts); i++) {
		++*counts[i];
		kr_unjudged_step(&f->file);
		assert_int_equal(fake.asks, 0);
		--*counts[i];
	}
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1);
	server_says(-EIO, NULL);
}

/* It is gone. */
static void what_the_server_has_no_file_for_any_more_goes_to_a_conflict_file(void **state)
{
	struct fixture *f = *state;

	ask_again(f);
	server_says(-ESTALE, NULL);
	assert_false(f->file.flush.unjudged);
	assert_int_equal(fake.late, 1);
	assert_int_equal(f->file.holder.held, 0);
}

/* Another session asks for all files; or somebody has discarded the bytes. */
static void an_answer_that_comes_too_late_counts_no_more(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	const struct kr_reclaim_reply reply = {.kinds = KR_LEASE_WRITE, .conflict = KR_CONFLICT_DIRTY};

	ask_again(f);
	fake.flusher.recovering = true;
	server_says(0, &reply);
	fake.flusher.recovering = false;
	assert_true(flush->unjudged);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	flush->unjudged = false;
	server_says(0, &reply);
	assert_int_equal(f->file.holder.held, 0);
	assert_int_equal(fake.late, 0);
	assert_int_equal(fake.stepped, 0);
}

static void bytes_of_a_file_that_is_known_to_be_gone_are_not_asked_for(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	f->file.flush.orphaned = true;
	kr_unjudged_begin(&f->file, -EIO);
	f->file.flush.judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 0);
}

static void what_the_server_lets_in_comes_with_the_lease(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	const struct kr_reclaim_reply reply = {.kinds = KR_LEASE_WRITE, .attr.size = 3};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.kinds, KR_LEASE_WRITE);
	server_says(0, &reply);
	assert_false(flush->unjudged || flush->orphaned);
	assert_int_equal(f->file.holder.held, KR_LEASE_WRITE);
	assert_int_equal(f->file.base.size, 3);
	assert_int_equal(fake.late, 0);
}

/* The server refused them, and a lease is given back: others can write before they are taken. */
static void what_was_refused_is_judged_when_a_lease_has_been_given_back(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	const struct kr_reclaim_reply granted = {.kinds = KR_LEASE_ALL}, conflict = {.conflict = KR_CONFLICT_DIRTY};

	write_some(f);
	kr_list_remove(&f->send.link);
	kr_flush_uncovered(&f->file);
	assert_false(flush->unjudged); /* it was not refused: written after what the recall was for */
	f->file.refused_seq = 7;
	f->file.base.ctime.sec = 5;
	fake.now.sec = 8;
	flush->plan.refused = -ENOSPC;
	kr_flush_uncovered(&f->file);
	assert_true(flush->unjudged && flush->orphaned);
	assert_int_equal(fake.orphaned, -ENOSPC);
	fake.flusher.recovering = true; /* another session begins, which does not ask for them */
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_true(flush->unjudged && flush->orphaned);
	fake.flusher.recovering = false;
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.kinds, KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED);
	assert_int_equal(fake.asked.since.sec, 8);
	assert_int_equal(fake.asked.last, 7);
	server_says(0, &conflict);
	assert_false(flush->unjudged || flush->orphaned || flush->uncovered);
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.forgotten, 0); /* not before they are elsewhere */
}

/* The directory says it first. */
static void nothing_is_given_back_with_refused_bytes_before_that_is_written_down(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	kr_list_remove(&f->send.link);
	f->file.refused_seq = 7;
	fake.now.sec = 8;
	assert_false(kr_flush_bound(&f->file)); /* nobody wants it back */
	f->file.holder.recalled = KR_LEASE_READ;
	assert_true(kr_flush_bound(&f->file));
	assert_int_equal(fake.listed_since.sec, 8);
	assert_int_equal(fake.listed_up_to, 7);
	fake.told = true;
	assert_false(kr_flush_bound(&f->file));
	f->file.flush.orphaned = true; /* they are sent no more at all */
	fake.told = false;
	assert_false(kr_flush_bound(&f->file));
}

/* A program goes on writing until the lease is gone: the bytes that were refused are as old as they were. */
static void what_was_refused_is_so_whatever_is_written_since(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	const struct kr_extent more = {.offset = 500, .length = 10, .position = 2000, .seq = 8};

	write_some(f);
	kr_list_remove(&f->send.link);
	f->file.refused_seq = 7;
	f->file.holder.refused = true;
	f->file.holder.recalled = KR_LEASE_READ;
	assert_true(kr_flush_bound(&f->file));
	assert_int_equal(kr_extent_map_insert(&f->file.dirty, &more, NULL, NULL), 0);
	kr_holder_dirtied(&f->file.holder, false);
	assert_true(kr_flush_bound(&f->file));
	assert_int_equal(fake.listed_up_to, 7); /* else it would be written down again for each write */
	fake.told = true;
	assert_false(kr_flush_bound(&f->file));
	kr_flush_uncovered(&f->file);
	assert_true(flush->unjudged && flush->uncovered);
}

static void what_was_taken_since_is_not_refused(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	kr_list_remove(&f->send.link);
	f->file.refused_seq = 6;
	f->file.holder.recalled = KR_LEASE_READ;
	assert_false(kr_flush_bound(&f->file));
	kr_flush_uncovered(&f->file);
	assert_false(f->file.flush.unjudged);
}

/* A daemon that is started anew finds that in the directory. */
static void what_a_start_finds_uncovered_is_judged(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = &f->file.flush;
	const struct kr_reclaim_reply granted = {.kinds = KR_LEASE_ALL};
	const struct kr_uncovered uncovered = {.since.sec = 4, .up_to = 7};

	write_some(f);
	kr_list_remove(&f->send.link);
	f->file.base.ctime.sec = 9;
	kr_unjudged_recovered(&f->file, &uncovered);
	assert_true(flush->uncovered && flush->orphaned);
	assert_int_equal(kr_file_since(&f->file).sec, 4);
	fake.flusher.recovering = true;
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_true(flush->uncovered && flush->orphaned); /* nothing was asked */
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_false(flush->uncovered || flush->orphaned);
	assert_int_equal(fake.forgotten, 1);
}

/* Without WRITE (the user may not write the file any more) others can write before they are in. */
static void what_may_not_be_written_now_is_asked_about_again(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply nothing = {0}, granted = {.kinds = KR_LEASE_ALL};

	ask_again(f);
	server_says(0, &nothing);
	assert_true(f->file.flush.unjudged && f->file.flush.orphaned);
	f->file.flush.judge_ns = 0;
	kr_unjudged_step(&f->file);
	server_says(0, &granted);
	assert_false(f->file.flush.unjudged || f->file.flush.orphaned);
}

static void nothing_is_given_up_while_what_was_refused_is_tried_again(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	assert_false(kr_flush_bound(&f->file));
	f->file.refused_seq = 7;
	assert_true(kr_flush_bound(&f->file));
	kr_list_remove(&f->send.link);
	assert_false(kr_flush_bound(&f->file));
}

/* In their turn, whatever becomes of what was refused later. */
static void rounds_to_be_replayed_do_not_wait_for_what_was_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_applied old = {.round = 20, .boot_id = {1}};

	write_some(f);
	kr_list_remove(&f->send.link);
	kr_extent_map_init(&old.extents);
	kr_list_append(&f->file.flush.applied, &old.link);
	f->file.refused_seq = 7;
	kr_flush_uncovered(&f->file);
	kr_flush_replay_file(&f->file, 0);
	assert_int_equal(fake.replays, 1);
	assert_true(kr_flush_bound(&f->file));
	f->file.flush.keeps_replays = true;
	kr_flush_replay_file(&f->file, 0);
	assert_int_equal(fake.replays, 1);
	assert_false(kr_flush_bound(&f->file));
}

static void a_file_without_late_bytes_has_nothing_to_keep(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
}

/* A loss of power may have left an old write (here: 7) in the journal without a newer one and without their marks. */
static void bytes_that_may_be_older_than_the_servers_are_kept_and_not_sent(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	fake.facts.instance = 3;
	f->file.flush.vouched = 3;
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.forgotten_seq = 6}); /* others have been forgotten, older ones */
	assert_false(f->file.flush.orphaned);
	assert_int_equal(f->file.flush.vouched, 0);

	f->file.flush.vouched = 3;
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.forgotten_seq = 7});
	assert_int_equal(fake.orphaned, -EIO);

	f->file.flush.orphaned = false;
	f->file.flush.vouched = 2; /* another instance knows nothing */
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){0});
	assert_true(f->file.flush.orphaned);

	f->file.flush.orphaned = false;
	f->file.flush.vouched = 0; /* no loss of power: the journal tells all */
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.forgotten_seq = UINT64_MAX});
	assert_false(f->file.flush.orphaned);
}

static void who_has_kept_his_leases_flushes_on(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	write_some(f);
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
	assert_int_equal(fake.abandoned, 0);
}

static void what_is_in_conflict_or_gone_is_moved(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {.conflict = 1};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, 0, &reply);
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.abandoned, 1);
	kr_flush_reclaimed(&f->file, -ESTALE, &reply);
	assert_int_equal(fake.late, 2);
}

/* The server judges the two apart. */
static void a_reclaim_tells_what_is_dirty_from_what_is_to_be_replayed(void **state)
{
	struct fixture *f = *state;
	static const uint8_t now[16] = {2};
	struct kr_applied old = {.round = 20, .boot_id = {1}}, older = {.round = 10, .boot_id = {1}}, current = {.round = 99, .boot_id = {2}};
	struct kr_applied *all[] = {&current, &older, &old};
	struct kr_claims claims;

	for (uint64_t i = 0; i < KR_ARRAY_SIZE(all); i++) {
		struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 2 + i};

		kr_extent_map_init(&all[i]->extents);
		assert_int_equal(kr_extent_map_insert(&all[i]->extents, &extent, NULL, NULL), 0);
		kr_list_append(&f->file.flush.applied, &all[i]->link);
	}
	kr_flush_claims(&f->file, now, &claims);
	assert_int_equal(claims.last, 0);
	write_some(f);
	kr_flush_claims(&f->file, now, &claims);
	assert_int_equal(claims.first, 7);
	assert_int_equal(claims.last, 7);
	assert_int_equal(claims.replay_first, 3);
	assert_int_equal(claims.replay_last, 4);
	assert_int_equal(claims.oldest, 10);
	assert_int_equal(claims.newest, 20);
	memcpy(fake.facts.boot_id, now, sizeof(now));
	kr_unjudged_begin(&f->file, -EIO);
	f->file.flush.judge_ns = 0;
	kr_list_remove(&f->send.link);
	kr_unjudged_step(&f->file);
	assert_true(fake.asked.first == 7 && fake.asked.last == 7 && fake.asked.replay_first == 3 && fake.asked.replay_last == 4);
	assert_true(fake.asked.oldest == 10 && fake.asked.newest == 20);
	server_says(-EIO, NULL);
	for (size_t i = 0; i < KR_ARRAY_SIZE(all); i++)
		kr_extent_map_fini(&all[i]->extents);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(late_bytes_of_which_the_server_can_tell_nothing_are_kept_and_not_sent),
		TEST(the_server_is_asked_again_what_it_could_not_tell),
		TEST(what_is_opened_or_closed_meanwhile_is_not_counted_twice),
		TEST(what_the_server_has_no_file_for_any_more_goes_to_a_conflict_file),
		TEST(an_answer_that_comes_too_late_counts_no_more),
		TEST(bytes_of_a_file_that_is_known_to_be_gone_are_not_asked_for),
		TEST(what_the_server_lets_in_comes_with_the_lease),
		TEST(what_was_refused_is_judged_when_a_lease_has_been_given_back),
		TEST(nothing_is_given_back_with_refused_bytes_before_that_is_written_down),
		TEST(what_was_refused_is_so_whatever_is_written_since),
		TEST(what_was_taken_since_is_not_refused),
		TEST(what_a_start_finds_uncovered_is_judged),
		TEST(what_may_not_be_written_now_is_asked_about_again),
		TEST(nothing_is_given_up_while_what_was_refused_is_tried_again),
		TEST(rounds_to_be_replayed_do_not_wait_for_what_was_refused),
		TEST(a_file_without_late_bytes_has_nothing_to_keep),
		TEST(a_reclaim_tells_what_is_dirty_from_what_is_to_be_replayed),
		TEST(bytes_that_may_be_older_than_the_servers_are_kept_and_not_sent),
		TEST(who_has_kept_his_leases_flushes_on),
		TEST(what_is_in_conflict_or_gone_is_moved),
	};

	kr_log_init("test_flush_session", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
