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

/* Makes all ranks' earlier writes come before this rank's next. */
static int wait_for_others(struct kr_mpifile *file)
{
	int err = file->write_order.needed ? kr_mount_flush_all_nodes(file->mount) : 0;

	if (!err) {
		set(&file->write_order.exchanged, false);
		set(&file->write_order.collected, false);
	}
	return err;
}

int kr_write_order_alone(struct kr_mpifile *file)
{
	int err = get(&file->write_order.collected) ? wait_for_others(file) : 0;

	set(&file->write_order.alone, true);
	return err;
}

int kr_write_order_direct(struct kr_mpifile *file)
{
	int err = get(&file->write_order.exchanged) ? wait_for_others(file) : 0;

	set(&file->write_order.alone, true);
	set(&file->write_order.collected, true);
	return err;
}

void kr_write_order_unseen(struct kr_mpifile *file)
{
	set(&file->write_order.alone, true);
}

bool kr_write_order_was_alone(struct kr_mpifile *file)
{
	return get(&file->write_order.alone);
}

bool kr_write_order_was_exchanged(struct kr_mpifile *file)
{
	return get(&file->write_order.exchanged);
}

int kr_write_order_exchange(struct kr_mpifile *file, bool any)
{
	int err = 0, class = MPI_SUCCESS;

	if (any && file->write_order.needed) {
		if (get(&file->write_order.alone))
			err = kr_mount_sync(file->mount);
		class = kr_file_agree(file, kr_mpi_class(err));
	}
	if (class == MPI_SUCCESS) {
		set(&file->write_order.alone, false);
		set(&file->write_order.exchanged, true);
		set(&file->write_order.collected, true);
	}
	return class;
}

void kr_write_order_synced(struct kr_mpifile *file)
{
	set(&file->write_order.alone, false);
	set(&file->write_order.exchanged, false);
	set(&file->write_order.collected, false);
}
