/* See write_order.h. */
#include "mpiio/twophase/write_order.h"

#include "mpiio/twophase/mpi_library.h"
#include "mpiio/twophase/file.h"

static bool get(bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static void set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELAXED);
}

/* Puts VALUE in place of a greater one (SIGN 1), or of a smaller one (-1). */
static void bound(int64_t *limit, int64_t value, int sign)
{
	int64_t old = __atomic_load_n(limit, __ATOMIC_RELAXED);

	while (sign > 0 ? value < old : value > old)
		if (__atomic_compare_exchange_n(limit, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
}

static void wrote_alone(struct kr_mpifile *file, int64_t lo, int64_t hi)
{
	if (lo >= hi)
		return;
	bound(&file->write_order.alone_lo, lo, 1);
	bound(&file->write_order.alone_hi, hi, -1);
}

static void alone_nowhere(struct kr_mpifile *file)
{
	__atomic_store_n(&file->write_order.alone_lo, INT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&file->write_order.alone_hi, 0, __ATOMIC_RELAXED);
}

/* Makes all ranks' earlier writes come before this rank's next. */
static int wait_for_others(struct kr_mpifile *file)
{
	int err = file->write_order.needed ? kr_mount_flush_all_nodes(file->mount) : 0;

	if (!err) {
		set(&file->write_order.exchanged, false);
		set(&file->write_order.others_wrote, false);
	}
	return err;
}

void kr_write_order_init(struct kr_mpifile *file, bool needed)
{
	kr_write_order_synced(file);
	file->write_order.needed = needed;
	file->write_order.others_wrote = file->ranks > 1;
}

int kr_write_order_alone(struct kr_mpifile *file, int64_t lo, int64_t hi)
{
	int err = get(&file->write_order.others_wrote) ? wait_for_others(file) : 0;

	wrote_alone(file, lo, hi);
	return err;
}

int kr_write_order_direct(struct kr_mpifile *file, int64_t lo, int64_t hi)
{
	int err = get(&file->write_order.exchanged) ? wait_for_others(file) : 0;

	wrote_alone(file, lo, hi);
	set(&file->write_order.others_wrote, true);
	return err;
}

void kr_write_order_unseen(struct kr_mpifile *file)
{
	wrote_alone(file, 0, INT64_MAX);
}

void kr_write_order_where_alone(struct kr_mpifile *file, int64_t *ret_lo, int64_t *ret_hi)
{
	*ret_lo = __atomic_load_n(&file->write_order.alone_lo, __ATOMIC_RELAXED);
	*ret_hi = __atomic_load_n(&file->write_order.alone_hi, __ATOMIC_RELAXED);
}

bool kr_write_order_was_exchanged(struct kr_mpifile *file)
{
	return get(&file->write_order.exchanged);
}

int kr_write_order_settle(struct kr_mpifile *file)
{
	int64_t lo, hi;
	int err, class;

	kr_write_order_where_alone(file, &lo, &hi);
	err = lo < hi ? kr_mount_sync(file->mount) : 0;
	class = kr_file_agree(file, kr_mpi_class(err));
	if (class == MPI_SUCCESS)
		alone_nowhere(file);
	return class;
}

void kr_write_order_exchange(struct kr_mpifile *file)
{
	set(&file->write_order.exchanged, true);
	set(&file->write_order.others_wrote, true);
}

void kr_write_order_synced(struct kr_mpifile *file)
{
	alone_nowhere(file);
	set(&file->write_order.exchanged, false);
	set(&file->write_order.others_wrote, false);
}
