/* Apply jobs (see apply.h). */
#include "server/flush/apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "server/flush/data_state.h"

struct kr_apply *kr_apply_new(
	struct kr_sfile *file, uint64_t round, void (*done)(struct kr_apply *apply), void *context)
{
	struct kr_apply *apply = kr_xcalloc(1, sizeof *apply);

	apply->export = file->server->export;
	apply->file = kr_sfile_ref(file);
	apply->round = round;
	apply->done = done;
	apply->context = context;
	return apply;
}

static void put_bufs(struct kr_apply *apply)
{
	for (size_t i = 0; i < apply->buf_count; i++)
		kr_buf_put(apply->bufs[i]);
	free(apply->bufs);
	free(apply->pieces);
	apply->bufs = NULL;
	apply->pieces = NULL;
	apply->buf_count = apply->buf_capacity = apply->count = apply->capacity = 0;
}

void kr_apply_free(struct kr_apply *apply)
{
	if (!apply)
		return;
	put_bufs(apply);
	kr_sfile_put(apply->file);
	free(apply);
}

/* Room for one more item of SIZE bytes in ARRAY; the length limits of messages bound both arrays. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
	void *larger;

	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 8;
	larger = kr_xcalloc(*capacity, size);
	if (count)
		memcpy(larger, array, count * size);
	free(array);
	return larger;
}

void kr_apply_add(struct kr_apply *apply, uint64_t offset, struct kr_buf *buf, size_t start, size_t length)
{
	if (apply->buf_count == 0 || apply->bufs[apply->buf_count - 1] != buf) {
		apply->bufs = grow(apply->bufs, apply->buf_count, &apply->buf_capacity, sizeof(apply->bufs[0]));
		apply->bufs[apply->buf_count++] = kr_buf_get(buf);
		apply->memory += sizeof *buf + buf->capacity;
	}
	apply->pieces = grow(apply->pieces, apply->count, &apply->capacity, sizeof(apply->pieces[0]));
	apply->pieces[apply->count++] =
		(struct kr_write_piece){.offset = offset, .data = buf->data + start, .length = length};
	apply->bytes += length;
}

static bool is_there(const struct kr_apply *apply, const struct kr_write_piece *piece, uint8_t *buffer)
{
	size_t length;

	return buffer &&
		kr_export_pread(apply->export, &apply->file->fid, piece->offset, buffer, piece->length, &length) == 0 &&
		length == piece->length && memcmp(buffer, piece->data, length) == 0;
}

/* Keeps the pieces that differ from the file. */
static void leave_out_what_is_there(struct kr_apply *apply)
{
	size_t longest = 0, kept = 0;
	KR_AUTO_FREE uint8_t *buffer = NULL;

	for (size_t i = 0; i < apply->count; i++)
		longest = KR_MAX(longest, apply->pieces[i].length);
	buffer = malloc(longest + 1);
	for (size_t i = 0; i < apply->count; i++) {
		if (!is_there(apply, &apply->pieces[i], buffer))
			apply->pieces[kept++] = apply->pieces[i];
	}
	apply->count = kept;
}

static int write_pieces(struct kr_apply *apply)
{
	int err = KR_FAULT("apply.before");

	if (err)
		return err;
	if (apply->want_before) {
		err = kr_export_getattr(apply->export, &apply->file->fid, &apply->before);
		if (err)
			return err;
	}
	if (apply->compare)
		leave_out_what_is_there(apply);
	if (apply->count) {
		apply->differs = true;
		err = kr_export_pwritev(apply->export, &apply->file->fid, apply->pieces, apply->count);
		if (err)
			return err;
	}
	return KR_FAULT("apply.middle");
}

static int end_round(struct kr_apply *apply)
{
	if (apply->compare && !apply->differs)
		return kr_export_getattr(apply->export, &apply->file->fid, &apply->after);
	return kr_export_written(apply->export, &apply->file->fid, &apply->mtime, apply->clear_suid, &apply->after);
}

static void run(struct kr_pool_share_job *gated)
{
	struct kr_apply *apply = KR_CONTAINER_OF(gated, struct kr_apply, gated);

	if (apply->check && kr_checksum(apply->bufs[0]->data, apply->bufs[0]->length) != apply->checksum) {
		apply->err = kr_fail(-EBADMSG, "the checksum of a flush does not match");
		return;
	}
	apply->err = write_pieces(apply);
	if (apply->err == 0 && apply->finish)
		apply->err = KR_FAULT("round.end");
	if (apply->err == 0 && apply->finish)
		apply->err = end_round(apply);
	if (apply->err == 0)
		apply->err = KR_FAULT("apply.after");
}

/* Whether FILE was removed while no node had it open.  `gone` is set a moment after the removal, when the loop hears of
 * it. */
static bool is_gone(const struct kr_sfile *file)
{
	return file->gone || (file->orphan && file->opens == 0);
}

static void done(struct kr_pool_share_job *gated)
{
	struct kr_apply *apply = KR_CONTAINER_OF(gated, struct kr_apply, gated);

	put_bufs(apply);
	if (apply->err == -ESTALE && is_gone(apply->file))
		apply->err = 0; /* no program can read these bytes */
	apply->done(apply);
}

void kr_apply_start(struct kr_apply *apply)
{
	apply->gated.job.is_brief = apply->bytes <= KR_APPLY_BRIEF_BYTES;
	kr_pool_share_start(&kr_data_of(apply->file)->applies, &apply->gated, run, done);
}
