/* Random histories of three nodes that write to two files, lose the power of the server's machine, and replay while
 * nodes and the server are killed, replays are damaged on their way, and nodes are away too long.
 *
 * Of two writes of the same byte the one that was applied later wins at the end, or is in a conflict file; and where
 * nothing but power was lost nothing goes to a conflict file.  `test_replays_random SEED COUNT` runs COUNT histories
 * from SEED on.  Jobs end when they end: a seed is about the same history each time, not quite.
 */
#include "test/unit/server/recovery/replay_disk.h"
#include "test/unit/server/recovery/replay_nodes.h"

#include "server/session/expiry.h"
#include "server/base/line_log.h"
#include "server/session/session.h"

enum { SEEDS = 20, TURNS = 120, LOSSES_MAX = 2, FAULTS_MAX = 5, HANG_S = 120 };

/* --- the server's end ------------------------------------------------------------------------- */

/* What the state directory says is kept as it is now, or becomes what was kept. */
static void keep_state(bool restore)
{
	char command[512];

	snprintf(command, sizeof command, "cd %s && %s", F.base,
		restore ? "rm -rf state && mv kept state" : "rm -rf kept && cp -a state kept");
	assert_int_equal(system(command), 0);
}

static void all_begin_anew(void)
{
	for (unsigned i = 0; i < WORLD_NODES; i++)
		node_new(node_names[i]);
}

static void stop_server(void)
{
	for (unsigned i = 0; i < WORLD_NODES; i++)
		lose_session(i);
	server_stop();
}

/* It has not the time to do anything in peace: the state directory and the files are as they are now. */
static void kill_server(uint8_t ret_bytes[WORLD_FILES][WORLD_SIZE])
{
	keep_state(false);
	for (unsigned file = 0; file < WORLD_FILES; file++)
		read_file(file, ret_bytes[file]);
	stop_server();
	keep_state(true);
}

static void restart(void)
{
	uint8_t bytes[WORLD_FILES][WORLD_SIZE];

	if (once_in(2)) {
		story("\nSTOP ");
		stop_server();
	} else {
		story("\nKILL ");
		kill_server(bytes);
		write_back(bytes);
	}
	server_start();
	all_begin_anew();
}

/* The logs of the state directory are those of another boot. */
static void begin_boot(void)
{
	struct kr_line_log lines = {0};
	int dir = open(F.state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	    fd = openat(dir, "synced", O_WRONLY | O_APPEND | O_CLOEXEC);

	kr_line_log_add(&lines, "boot 0123456789abcdef0123456789abcdef 0");
	assert_int_equal(kr_line_log_append(&lines, fd), 0);
	free(lines.bytes);
	unlinkat(dir, "replayed", 0);
	close(fd);
	close(dir);
	change_state(true, false);
}

/* What was not synced may be on the disk, or not. */
static void lose_power(void)
{
	uint8_t bytes[WORLD_FILES][WORLD_SIZE], synced_bytes[WORLD_FILES][WORLD_SIZE];
	unsigned kept = below(3);

	story("\nPOWER ");
	disk_get(synced_bytes);
	kill_server(bytes);
	for (unsigned file = 0; file < WORLD_FILES; file++) {
		for (unsigned i = 0; i < WORLD_SIZE; i++) {
			if (kept == 0 || (kept == 1 && once_in(2)))
				bytes[file][i] = synced_bytes[file][i];
		}
	}
	write_back(bytes);
	disk_sync();
	FOR_EACH_WRITE(write)
	{
		if (write->state == WRITE_APPLIED)
			write->state = WRITE_WAITS;
	}
	begin_boot();
	server_start();
	all_begin_anew();
}

/* --- what happens ----------------------------------------------------------------------------- */

struct history {
	unsigned losses, faults;
	unsigned first_loss; /* the turn in which the power goes */
	bool kills, goes_away;
};

/* Whom the server waits for; others wait for the end. */
static bool all_there_have_reclaimed(void)
{
	for (unsigned i = 0; i < WORLD_NODES; i++) {
		const struct member *member = &W.members[i];

		if (!member->away && !member->done_sent &&
			kr_grace_awaits(&F.server.sessions->grace, F.nodes[i].node_id, NULL))
			return false;
	}
	return true;
}

static void maybe_end_grace(void)
{
	if (!F.server.sessions->grace.active || !once_in(10) || !all_there_have_reclaimed())
		return;
	F.server.sessions->hooks.end_grace(&F.server);
}

static void maybe_come_back(void)
{
	for (unsigned i = 0; i < WORLD_NODES; i++) {
		if (W.members[i].away && !F.server.sessions->grace.active && once_in(10)) {
			story("%s back ", node_names[i]);
			W.members[i].away = false;
		}
	}
}

static void go_away(void)
{
	unsigned node = below(WORLD_NODES);

	story("%s away ", node_names[node]);
	W.members[node].away = W.faulty = true;
}

static void kill_node(unsigned node)
{
	if (!F.nodes[node].control)
		return;
	story("\nDIES %s ", node_names[node]);
	lose_session(node);
	node_die(&F.nodes[node]);
}

/* Its network is cut for the lease time. */
static void lose_node(unsigned node)
{
	struct kr_session *session = kr_session_find_node_id(&F.server, F.nodes[node].node_id);

	if (!session)
		return;
	story("\nLOST %s ", node_names[node]);
	lose_session(node);
	node_die(&F.nodes[node]);
	session->expiry.heard_ns = 0;
	kr_expiry_tick(&F.server, kr_clock_ns());
}

static void something_breaks(void)
{
	unsigned what = below(8);

	W.faulty = true;
	if (what < 3) {
		restart();
	} else if (what < 6) {
		kill_node(below(WORLD_NODES));
	} else if (what == 6) {
		lose_node(below(WORLD_NODES));
	} else {
		story("\nGRACE "); /* it has lasted long enough, whoever is slow */
		F.server.sessions->hooks.end_grace(&F.server);
	}
}

/* Most of it while replays are collected, and go in. */
static unsigned seldomness(void)
{
	if (!F.server.sessions->grace.active)
		return 60;
	return kr_data_collecting(F.server.data) ? 20 : 8;
}

static void something_happens(struct history *history, unsigned turn)
{
	if (history->kills && history->faults < FAULTS_MAX && once_in(seldomness())) {
		history->faults++;
		something_breaks();
	} else if (history->losses < LOSSES_MAX && (turn == history->first_loss || (history->losses && once_in(60)))) {
		history->losses++;
		lose_power();
		if (history->goes_away && once_in(3))
			go_away();
	}
}

static void somebody_writes(void)
{
	unsigned node = below(WORLD_NODES), file = below(WORLD_FILES);
	const struct view *view = &W.members[node].views[file];

	if (W.write_count == WRITES_MAX || !F.nodes[node].live || !W.members[node].done || !is_idle(view) ||
		view->keeps || view->recall_id)
		return;
	if (!has(node, file, WRITE_WAITS) && !has(node, file, WRITE_DIRTY))
		flush_write(new_write(node, file));
}

static void fsync_heard(struct node *node, int err, const void *reply)
{
	(void)node;
	(void)err;
	(void)reply;
}

static void somebody_syncs(void)
{
	unsigned node = below(WORLD_NODES);
	struct kr_fsync_request msg = {.file = W.files[below(WORLD_FILES)]};

	if (F.nodes[node].live && W.members[node].done)
		node_ask(&F.nodes[node], KR_MSG_FSYNC, &msg, NULL, 0, fsync_heard);
}

static bool is_over(void)
{
	if (F.server.sessions->grace.active)
		return false;
	for (unsigned i = 0; i < WORLD_NODES; i++) {
		for (unsigned file = 0; file < WORLD_FILES; file++) {
			if (!is_idle(&W.members[i].views[file]))
				return false;
		}
		if (!W.members[i].done)
			return false;
	}
	FOR_EACH_WRITE(write)
	{
		if (write->state != WRITE_APPLIED && write->state != WRITE_STABLE && write->state != WRITE_CONFLICT)
			return false;
	}
	return true;
}

/* --- what has come of it ---------------------------------------------------------------------- */

static bool covers(const struct write *write, unsigned file, uint64_t offset)
{
	return write->file == file && offset >= write->extent.offset &&
		offset < write->extent.offset + write->extent.length;
}

static const struct write *winner(unsigned file, uint64_t offset)
{
	const struct write *last = NULL;

	FOR_EACH_WRITE(write)
	{
		if (covers(write, file, offset) && write->state != WRITE_CONFLICT &&
			(!last || write->order > last->order))
			last = write;
	}
	return last;
}

/* Its bytes went in before that was found to be in conflict, or the node did not hear that they were in, and nothing
 * has covered them since. */
static bool has_been_in(unsigned file, uint64_t offset, uint8_t byte, const struct write *last)
{
	FOR_EACH_WRITE(write)
	{
		if (covers(write, file, offset) && write->state == WRITE_CONFLICT &&
			byte == content(offset, number_of(write)) &&
			(!write->order || !last || write->order > last->order))
			return true;
	}
	return false;
}

static void tell(void)
{
	print_error("%s\n", W.log);
	FOR_EACH_WRITE(write)
	print_error("%u: %s%u %llu-%llu order %llx round %llx state %d\n", number_of(write), node_names[write->node],
		write->file, (unsigned long long)write->extent.offset,
		(unsigned long long)(write->extent.offset + write->extent.length), (unsigned long long)write->order,
		(unsigned long long)write->round, write->state);
}

static void judge(void)
{
	for (unsigned file = 0; file < WORLD_FILES; file++) {
		uint8_t bytes[WORLD_SIZE];

		read_file(file, bytes);
		for (uint64_t i = 0; i < WORLD_SIZE; i++) {
			const struct write *last = winner(file, i);
			unsigned found = 0;

			if (bytes[i] == (last ? content(i, number_of(last)) : 0) ||
				has_been_in(file, i, bytes[i], last))
				continue;
			FOR_EACH_WRITE(write)
			found = bytes[i] == content(i, number_of(write)) ? number_of(write) : found;
			tell();
			fail_msg("byte %llu of file %u is not of write %u, but of %u", (unsigned long long)i, file,
				last ? number_of(last) : 0, found);
		}
	}
	FOR_EACH_WRITE(write)
	{
		if (write->state == WRITE_CONFLICT && !W.faulty) {
			tell();
			fail_msg("a conflict although nothing but power was lost");
		}
	}
}

/* --- a history -------------------------------------------------------------------------------- */

static uint64_t seed;

static struct history begin_history(void)
{
	struct history history = {0};

	memset(&W, 0, sizeof W);
	W.random = seed;
	for (int i = 0; i < 4; i++)
		below(2); /* small seeds are alike at first */
	history.first_loss = 5 + below(TURNS / 2);
	history.kills = below(4) > 0;
	history.goes_away = once_in(2);
	W.damages = once_in(2) ? 25 : 0;
	for (unsigned i = 0; i < WORLD_NODES; i++)
		node_start(node_names[i]);
	for (unsigned file = 0; file < WORLD_FILES; file++)
		W.files[file] = create_file(&F.nodes[0], file_names[file]);
	disk_begin();
	F.on_request = world_asked;
	for (unsigned i = 0; i < WORLD_NODES; i++) {
		W.members[i].done_sent = W.members[i].done = true;
		for (unsigned file = 0; file < WORLD_FILES; file++)
			W.members[i].views[file].reclaimed = true;
	}
	return history;
}

static void of_two_writes_of_a_byte_the_later_wins_or_is_in_a_conflict_file(void **state)
{
	struct history history = begin_history();
	uint64_t deadline = kr_clock_ns() + HANG_S * KR_NS_PER_S;

	(void)state;
	for (unsigned turn = 0; turn < TURNS || !is_over(); turn++) {
		for (unsigned i = below(4); i > 0; i--)
			step(below(WORLD_NODES));
		if (turn < TURNS) {
			if (once_in(2))
				somebody_writes();
			if (once_in(40))
				somebody_syncs();
			something_happens(&history, turn);
		}
		maybe_end_grace();
		maybe_come_back();
		uv_run(&F.loop, UV_RUN_ONCE);
		if (kr_clock_ns() > deadline) {
			tell();
			fail_msg("it does not end");
		}
	}
	judge();
	disk_end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {TEST(of_two_writes_of_a_byte_the_later_wins_or_is_in_a_conflict_file)};
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
		 count = argc > 2 ? strtoull(argv[2], NULL, 10) :
		argc > 1          ? 1 :
				    SEEDS;

	prepare();
	for (seed = first; seed < first + count; seed++) {
		print_message("seed %llu\n", (unsigned long long)seed);
		if (cmocka_run_group_tests(tests, NULL, NULL))
			return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
