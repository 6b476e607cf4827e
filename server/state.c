/* Node records in the state directory, changed in order from the loop: see state.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/log.h"
#include "server/state_priv.h"

struct change {
	struct kr_job job;
	struct kr_link link;
	struct kr_state *state;
	char file[KR_STATE_ID_HEX];
	char *name; /* NULL: remove the record */
	int err;
	void (*done)(void *context, int err);
	void *context;
};

void kr_state_id_to_hex(const uint8_t id[16], char hex[KR_STATE_ID_HEX])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++) {
		hex[2 * i] = digits[id[i] >> 4];
		hex[2 * i + 1] = digits[id[i] & 15];
	}
	hex[32] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kr_state_id_from_hex(const char *hex, uint8_t id[16])
{
	for (int i = 0; i < 16; i++) {
		int high = digit(hex[2 * i]), low = high < 0 ? -1 : digit(hex[2 * i + 1]);

		if (low < 0)
			return false;
		id[i] = (uint8_t)(high << 4 | low);
	}
	return hex[32] == '\0';
}

static void start_next(struct kr_state *state);

static void run_change(struct kr_job *job)
{
	struct change *change = KR_CONTAINER_OF(job, struct change, job);
	int dir = change->state->nodes_dir;

	if (change->name) {
		change->err = kr_write_file(dir, change->file, change->name, strlen(change->name), 0600);
	} else if (unlinkat(dir, change->file, 0) && errno != ENOENT) {
		change->err = -errno;
		kr_fail_errno(change->err, "cannot remove the record of node %s", change->file);
	}
	if (change->err)
		kr_log_error("%s/nodes: %s", change->state->path, kr_fail_reason());
}

static void change_done(struct kr_job *job)
{
	struct change *change = KR_CONTAINER_OF(job, struct change, job);
	struct kr_state *state = change->state;

	state->changing = false;
	start_next(state);
	if (change->done)
		change->done(change->context, change->err);
	free(change->name);
	free(change);
}

static void start_next(struct kr_state *state)
{
	struct kr_link *link;
	struct change *change;

	if (state->changing || !(link = kr_list_pop(&state->changes)))
		return;
	change = KR_LIST_ENTRY(link, struct change, link);
	state->changing = true;
	kr_job_start(state->server, &change->job, run_change, change_done);
}

static struct change *queue_change(struct kr_state *state, const uint8_t node_id[16])
{
	struct change *change = kr_xcalloc(1, sizeof(*change));

	change->state = state;
	kr_state_id_to_hex(node_id, change->file);
	kr_list_append(&state->changes, &change->link);
	return change;
}

void kr_state_add_node(struct kr_server *server, const uint8_t node_id[16], const char *name,
	void (*done)(void *context, int err), void *context)
{
	struct kr_state *state = server->state;
	struct change *change = queue_change(state, node_id);

	state->server = server;
	change->name = kr_xstrdup(name);
	change->done = done;
	change->context = context;
	start_next(state);
}

void kr_state_forget_node(struct kr_state *state, const uint8_t node_id[16])
{
	if (!state->server)
		return; /* nobody has ever been added */
	queue_change(state, node_id);
	start_next(state);
}

void kr_state_sync_export(const struct kr_state *state)
{
	if (syncfs(state->export_lock))
		kr_log_error("cannot sync the export: %s", strerror(errno));
}

const struct kr_state_facts *kr_state_facts(const struct kr_state *state)
{
	return &state->facts;
}

int kr_state_dir(const struct kr_state *state)
{
	return state->dir;
}

const char *kr_state_path(const struct kr_state *state)
{
	return state->path;
}
