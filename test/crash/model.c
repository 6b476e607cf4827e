/* See model.h. */
#include "test/crash/model.h"

#include <string.h>

#include "test/crash/disk.h"

void model_apply(struct model *model, int file, const uint32_t cells[CELLS], uint64_t seq)
{
	struct model_file *to = &model->files[file];

	for (int c = 0; c < CELLS; c++) {
		if (!cells[c])
			continue;
		to->content[c] = to->promised[c] = cells[c];
		to->lost[c] = false;
	}
	model->round++;
	to->changed = ++model->now;
	to->theirs = !seq;
	if (seq)
		to->applied_seq = seq;
	else
		to->foreign = to->changed;
}

void model_sync(struct model *model, int file)
{
	struct model_file *from = &model->files[file];

	for (int c = 0; c < CELLS; c++)
		if (!from->lost[c] &&
			from->content[c] == from->promised[c]) /* else a loss of power has left it by chance */
			from->durable[c] = from->content[c];
	from->durable_changed = from->changed;
	from->stable = model->round;
}

void model_fail_sync(struct model *model, int file)
{
	struct model_file *from = &model->files[file];

	for (int c = 0; c < CELLS; c++)
		from->lost[c] |= from->content[c] != from->durable[c];
	from->applied_seq = 0;
	from->foreign = from->changed;
}

/* The other node sends again what it has not heard to be durable. */
static void lose_power(struct model_file *file)
{
	for (int c = 0; c < CELLS && !file->theirs; c++) {
		file->promised[c] = file->durable[c];
		if (file->lost[c] || one_in(2))
			file->content[c] = file->durable[c];
	}
	if (!file->theirs && one_in(2))
		file->changed = file->durable_changed;
}

void model_restart(struct model *model, bool reboot)
{
	for (int i = 0; i < FILES; i++) {
		struct model_file *file = &model->files[i];

		if (reboot)
			lose_power(file);
		memset(file->lost, 0, sizeof(file->lost)); /* else the next instance rewrites it */
		file->applied_seq = 0;
		file->foreign = file->changed;
	}
}
