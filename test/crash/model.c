/* See model.h. */
#include "test/crash/model.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/flush/replayed.h"
#include "test/crash/disk.h"

struct model_replays {
	struct kr_applied applied;
	struct kr_replayed log;
};

struct kr_fid model_fid(int index)
{
	struct kr_fid fid = {.length = 12};

	memset(fid.bytes, 'a' + index, 12);
	return fid;
}

static void open_synced(struct model *model)
{
	uint8_t boot_id[16] = {model->boot};

	if (kr_synced_open(&model->synced, &model->server, model->dir, boot_id, model->round) < 0)
		abort();
}

static void open_replays(struct model *model)
{
	struct model_replays *replays = kr_xcalloc(1, sizeof(*replays));
	uint8_t boot_id[16] = {model->boot};

	model->replays = replays;
	kr_applied_init(&replays->applied);
	if (kr_replayed_open(&replays->log, &model->server, model->dir, boot_id, &replays->applied) < 0)
		abort();
}

static void close_replays(struct model *model)
{
	kr_replayed_close(&model->replays->log);
	kr_applied_fini(&model->replays->applied);
	free(model->replays);
}

void model_begin(struct model *model, const char *directory)
{
	*model = (struct model){.instance = 1, .boot = 1};
	model->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (model->dir < 0 || uv_loop_init(&model->loop))
		abort();
	model->server.loop = &model->loop;
	open_synced(model);
	open_replays(model);
}

void model_end(struct model *model)
{
	close_replays(model);
	kr_synced_close(&model->synced);
	if (uv_loop_close(&model->loop))
		abort();
	close(model->dir);
}

void model_restart(struct model *model, bool reboot)
{
	model->instance++;
	model->boot += reboot;
	disk_pause(true);
	close_replays(model);
	open_replays(model);
	if (reboot) {
		kr_synced_close(&model->synced);
		open_synced(model);
	}
	disk_pause(false);
	for (int i = 0; i < FILES; i++) {
		model->files[i].applied_seq = model_replayed_seq(model, i);
		if (reboot)
			memcpy(model->files[i].content, model->files[i].durable, sizeof(model->files[i].content));
	}
}

static void noted(void *context, int err)
{
	(void)context;
	if (err)
		abort();
}

void model_sync(struct model *model, int file)
{
	struct kr_fid fid = model_fid(file);

	model->files[file].synced = model->round;
	memcpy(model->files[file].durable, model->files[file].content, sizeof(model->files[file].durable));
	if (!model->forgetful &&
		model->files[file].their_count > 0) { /* as stable.c: what one node alone wrote needs no note */
		disk_pause(true);
		kr_synced_note(&model->synced, &fid, model->round, noted, NULL);
		uv_run(&model->loop, UV_RUN_DEFAULT);
		disk_pause(false);
	}
	model->files[file].their_count = 0;
}

void model_replayed(struct model *model, int file, uint64_t seq, uint64_t round)
{
	const uint8_t node_id[16] = "the node";
	struct kr_applied_replay replay = {.seq = seq, .round = round};
	struct kr_fid fid = model_fid(file);

	if (model->oblivious)
		return;
	disk_pause(true);
	kr_replayed_note(&model->replays->log, &fid, node_id, &replay, noted, NULL);
	uv_run(&model->loop, UV_RUN_DEFAULT);
	disk_pause(false);
}

uint64_t model_replayed_seq(struct model *model, int file)
{
	const uint8_t node_id[16] = "the node";
	struct kr_fid fid = model_fid(file);
	const struct kr_applied_entry *entry = kr_applied_find(&model->replays->applied, &fid, node_id);

	return entry ? entry->seq : 0;
}

void model_write(struct model *model, int file, const uint32_t cells[CELLS])
{
	struct model_file *to = &model->files[file];

	if (to->their_count == THEIRS)
		model_sync(model, file);
	to->theirs[to->their_count].order = ++model->round;
	memcpy(to->theirs[to->their_count++].cells, cells, sizeof(to->theirs[0].cells));
	for (int c = 0; c < CELLS; c++)
		to->content[c] = cells[c] ? cells[c] : to->content[c];
}

enum kr_synced_verdict model_judge(const struct model *model, int file, uint64_t round)
{
	struct kr_fid fid = model_fid(file);

	return kr_synced_judge(&model->synced, &fid, round, round);
}

void model_replay(const struct model *model, int file, int *next, uint64_t order, uint32_t content[CELLS])
{
	const struct model_file *from = &model->files[file];

	for (; *next < from->their_count && from->theirs[*next].order < order; ++*next)
		for (int c = 0; c < CELLS; c++)
			content[c] = from->theirs[*next].cells[c] ? from->theirs[*next].cells[c] : content[c];
}
