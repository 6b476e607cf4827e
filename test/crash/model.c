#include "test/crash/model.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/crash/disk.h"

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

void model_begin(struct model *model, const char *directory)
{
	*model = (struct model){.instance = 1, .boot = 1};
	model->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (model->dir < 0 || uv_loop_init(&model->loop))
		abort();
	model->server.loop = &model->loop;
	open_synced(model);
}

void model_end(struct model *model)
{
	kr_synced_close(&model->synced);
	if (uv_loop_close(&model->loop))
		abort();
	close(model->dir);
}

void model_restart(struct model *model, bool reboot)
{
	model->instance++;
	for (int i = 0; i < FILES; i++) {
		model->files[i].applied_seq = 0;
		if (reboot)
			memcpy(model->files[i].content, model->files[i].durable, sizeof(model->files[i].content));
	}
	if (!reboot)
		return;
	model->boot++;
	disk_pause(true);
	kr_synced_close(&model->synced);
	open_synced(model);
	disk_pause(false);
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
	if (!model->forgetful && model->files[file].their_count > 0) { /* as stable.c: what one node alone wrote needs no note */
		disk_pause(true);
		kr_synced_note(&model->synced, &fid, model->round, noted, NULL);
		uv_run(&model->loop, UV_RUN_DEFAULT);
		disk_pause(false);
	}
	model->files[file].their_count = 0;
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
