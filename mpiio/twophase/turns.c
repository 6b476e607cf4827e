/* See turns.h. */
#include "mpiio/twophase/turns.h"

#include "mpiio/twophase/errors.h"
#include "mpiio/twophase/file.h"

static bool get(bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static void set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELAXED);
}

/* Makes everybody's earlier writes come before this rank's next. */
static int wait_for_others(struct kr_mpifile *file)
{
	int err = file->turns.needed ? kr_mount_meet(file->mount) : 0;

	if (!err) {
		set(&file->turns.exchanged, false);
		set(&file->turns.collected, false);
	}
	return err;
}

int kr_intent_alone(struct kr_mpifile *file)
{
	int err = get(&file->turns.collected) ? wait_for_others(file) : 0;

	set(&file->turns.alone, true);
	return err;
}

int kr_intent_direct(struct kr_mpifile *file)
{
	int err = get(&file->turns.exchanged) ? wait_for_others(file) : 0;

	set(&file->turns.alone, true);
	set(&file->turns.collected, true);
	return err;
}

void kr_intent_unseen(struct kr_mpifile *file)
{
	set(&file->turns.alone, true);
}

bool kr_intent_was_alone(struct kr_mpifile *file)
{
	return get(&file->turns.alone);
}

bool kr_intent_was_exchanged(struct kr_mpifile *file)
{
	return get(&file->turns.exchanged);
}

int kr_intent_exchange(struct kr_mpifile *file, bool any)
{
	int err = 0, class = MPI_SUCCESS;

	if (any && file->turns.needed) {
		if (get(&file->turns.alone))
			err = kr_mount_sync(file->mount);
		class = kr_file_agree(file, kr_mpi_class(err));
	}
	if (class == MPI_SUCCESS) {
		set(&file->turns.alone, false);
		set(&file->turns.exchanged, true);
		set(&file->turns.collected, true);
	}
	return class;
}

void kr_intent_synced(struct kr_mpifile *file)
{
	set(&file->turns.alone, false);
	set(&file->turns.exchanged, false);
	set(&file->turns.collected, false);
}
