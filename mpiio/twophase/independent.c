/* See independent.h. */
#include "mpiio/twophase/independent.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "mpiio/twophase/mpi_library.h"

enum { CHUNK = 4 << 20, RUNS_MAX = 1024 };

/* A part of the access: some runs of the file, with the bytes between them. */
struct chunk {
	struct kr_run runs[RUNS_MAX];
	size_t count;
	uint64_t data, bytes; /* of the access: first byte, number of bytes */
};

/* MPI's own way, for types that the layer cannot read. */
static int run_real(struct kr_mpifile *file, const struct kr_access *access, uint64_t *ret_done)
{
	MPI_Status status;
	MPI_Count bytes = 0;
	int class, rc;

#if MPI_VERSION >= 4
	rc = access->writing ? kr_real()->File_write_at_c(file->fh, access->offset, access->buffer, access->items,
				       access->datatype, &status) :
			       kr_real()->File_read_at_c(file->fh, access->offset, access->buffer, access->items,
				       access->datatype, &status);
#else
	rc = access->writing ? kr_real()->File_write_at(file->fh, access->offset, access->buffer, (int)access->items,
				       access->datatype, &status) :
			       kr_real()->File_read_at(file->fh, access->offset, access->buffer, (int)access->items,
				       access->datatype, &status);
#endif
	PMPI_Error_class(rc, &class);
	if (class == MPI_SUCCESS)
		PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
	*ret_done = bytes > 0 ? (uint64_t)bytes : 0;
	return class;
}

/* Takes the next runs, as long as they span no more than CHUNK bytes of the file.  A longer run comes in parts; runs
 * that are not in the file's order come one by one. */
static bool next_chunk(struct kr_cursor *cursor, bool ordered, struct chunk *chunk)
{
	int64_t offset;

	chunk->data += chunk->bytes;
	chunk->bytes = 0;
	chunk->count = 0;
	if (!kr_cursor_peek(cursor, &offset))
		return false;
	if (!ordered) {
		chunk->count = kr_cursor_take(cursor, CHUNK, &chunk->runs[0]);
		chunk->bytes = chunk->runs[0].length;
		return true;
	}
	while (chunk->count < RUNS_MAX && kr_cursor_next(cursor, offset + CHUNK, &chunk->runs[chunk->count]))
		chunk->bytes += chunk->runs[chunk->count++].length;
	return true;
}

static int write_packed(struct kr_mpifile *file, struct kr_access *access, struct chunk *chunk, char *buffer)
{
	uint64_t base = (uint64_t)chunk->runs[0].offset, data = chunk->data;

	for (size_t i = 0; i < chunk->count; data += chunk->runs[i++].length)
		kr_access_pack(access, data, buffer + ((uint64_t)chunk->runs[i].offset - base), chunk->runs[i].length);
	return kr_mount_write(file->mount, chunk->runs, chunk->count, buffer, base);
}

/* *RET_DONE: bytes that the file had; at its end fewer than the chunk has. */
static int read_packed(
	struct kr_mpifile *file, struct kr_access *access, struct chunk *chunk, char *buffer, uint64_t *ret_done)
{
	uint64_t base = (uint64_t)chunk->runs[0].offset, end, done = 0;
	int err = kr_mount_read(file->mount, false, chunk->runs, chunk->count, buffer, base, &end);

	for (size_t i = 0; !err && i < chunk->count; i++) {
		uint64_t offset = (uint64_t)chunk->runs[i].offset, length = chunk->runs[i].length;

		if (offset >= end)
			break;
		length = KR_MIN(length, end - offset);
		kr_access_unpack(access, chunk->data + done, buffer + (offset - base), length);
		done += length;
	}
	*ret_done = done;
	return err;
}

static int run_packed(struct kr_mpifile *file, struct kr_access *access, struct kr_cursor *cursor, uint64_t *ret_done)
{
	KR_AUTO_FREE char *buffer = malloc(CHUNK);
	KR_AUTO_FREE struct chunk *chunk = calloc(1, sizeof(*chunk));

	if (!buffer || !chunk)
		return kr_fail(-ENOMEM, "no memory for %d bytes", CHUNK);
	while (next_chunk(cursor, access->ordered, chunk)) {
		uint64_t done = chunk->bytes;
		int err = access->writing ? write_packed(file, access, chunk, buffer) :
					    read_packed(file, access, chunk, buffer, &done);

		if (err)
			return err;
		*ret_done += done;
		if (done < chunk->bytes)
			break;
	}
	return 0;
}

/* Memory and file are one run each: no copy. */
static int run_contiguous(struct kr_mpifile *file, struct kr_access *access, struct kr_run run, uint64_t *ret_done)
{
	uint64_t end, base = (uint64_t)run.offset;
	int err;

	if (access->writing) {
		err = kr_mount_write(file->mount, &run, 1, access->contiguous, base);
		*ret_done = run.length;
	} else {
		err = kr_mount_read(file->mount, false, &run, 1, access->contiguous, base, &end);
		*ret_done = end >= base + run.length ? run.length : end - base;
	}
	return err;
}

static int run_own(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done)
{
	struct kr_cursor cursor;
	struct kr_run run;
	int err = kr_view_cursor(&access->view, access->start, access->count, &cursor);

	if (err < 0)
		return err;
	if (access->contiguous && access->ordered && kr_view_contiguous(&access->view) &&
		kr_cursor_next(&cursor, INT64_MAX, &run))
		return run_contiguous(file, access, run, ret_done);
	return run_packed(file, access, &cursor, ret_done);
}

static int run(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done)
{
	int err;

	if (!access->known)
		return run_real(file, access, ret_done);
	err = run_own(file, access, ret_done);
	if (err < 0)
		*ret_done = 0;
	return kr_mpi_class(err);
}

/* Where ACCESS writes, as far as that is known. */
static void find_range(const struct kr_access *access, int64_t *ret_lo, int64_t *ret_hi)
{
	*ret_lo = 0;
	*ret_hi = access->count > 0 ? INT64_MAX : 0;
	if (access->known && access->ordered && access->count > 0)
		(void)kr_view_range(&access->view, access->start, access->count, ret_lo, ret_hi);
}

int kr_independent_alone(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done)
{
	int64_t lo, hi;
	int err;

	find_range(access, &lo, &hi);
	err = access->writing && access->count > 0 ? kr_write_order_alone(file, lo, hi) : 0;
	*ret_done = 0;
	if (err < 0 || access->count == 0)
		return kr_mpi_class(err);
	return run(file, access, ret_done);
}

int kr_independent_direct(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done)
{
	int64_t lo, hi;
	int err;

	find_range(access, &lo, &hi);
	err = access->writing ? kr_write_order_direct(file, lo, hi) : 0;
	*ret_done = 0;
	if (err < 0 || access->count == 0)
		return kr_mpi_class(err);
	return run(file, access, ret_done);
}
