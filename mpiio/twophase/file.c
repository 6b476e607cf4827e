/* See file.h. */
#include "mpiio/twophase/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "mpiio/twophase/collective.h"
#include "mpiio/twophase/mpi_library.h"
#include "mpiio/schedule/hints_mpi.h"
#include "mpiio/schedule/topology_mpi.h"

enum { STRIPE_DEFAULT = 4 << 20 };

/* ---- the table ---- */

static struct {
	pthread_mutex_t lock;
	struct kr_table files;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_of(MPI_File fh)
{
	return kr_hash_u64((uint64_t)(uintptr_t)fh);
}

struct kr_mpifile *kr_file_find(MPI_File fh)
{
	KR_SCOPED_LOCK(&table.lock);

	return KR_TABLE_FIND(struct kr_mpifile, file, &table.files, hash_of(fh), link, file->fh == fh);
}

struct kr_mpifile *kr_file_active(MPI_File fh)
{
	struct kr_mpifile *file = kr_file_find(fh);

	return file && !file->atomic && !file->foreign ? file : NULL;
}

/* ---- agreement ---- */

int kr_file_agree(struct kr_mpifile *file, int class)
{
	int highest = class, rc = PMPI_Allreduce(&class, &highest, 1, MPI_INT, MPI_MAX, file->comm);

	return rc == MPI_SUCCESS ? highest : MPI_ERR_IO;
}

static bool all_agree(MPI_Comm comm, bool yes)
{
	int mine = yes, all = 0;

	return PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
}

bool kr_file_hints_changed(const struct kr_mpifile *file)
{
	return memcmp(&file->wanted, &file->agreed, sizeof(file->wanted)) != 0;
}

uint64_t kr_file_stripe(const struct kr_mpifile *file)
{
	return file->hints.striping_unit ? file->hints.striping_unit : STRIPE_DEFAULT;
}

/* A list of hosts that matches no node, or is malformed, is an unusable value: ignored. */
static int choose_aggregators(struct kr_mpifile *file)
{
	int err = kr_aggregators_new(
		file->topology, file->hints.cb_nodes, file->hints.cb_config_list, &file->aggregators);

	if (err != -EINVAL && err != -ENOENT)
		return err;
	file->hints.cb_config_list[0] = '\0';
	return kr_aggregators_new(file->topology, file->hints.cb_nodes, NULL, &file->aggregators);
}

static void drop_aggregators(struct kr_mpifile *file)
{
	free(file->targets);
	free(file->sources);
	kr_aggregators_free(file->aggregators);
	kr_window_fini(&file->window);
	kr_slots_fini(&file->slots);
	file->targets = file->sources = NULL;
	file->aggregators = NULL;
}

static int place_aggregators(struct kr_mpifile *file)
{
	enum kr_order order = (enum kr_order)file->hints.order;
	uint32_t index;
	int err = choose_aggregators(file);

	if (err < 0)
		return err;
	err = kr_window_init(&file->window, file->comm, file->hints.window ? (int)file->hints.window : file->ranks);
	if (err < 0)
		return err;
	file->targets = calloc(file->aggregators->count, sizeof(*file->targets));
	if (!file->targets)
		return -ENOMEM;
	kr_order_sends(order, file->topology, file->aggregators, (uint32_t)file->rank, file->targets);
	index = file->aggregators->index[file->rank];
	if (index == KR_NO_AGGREGATOR)
		return 0;
	file->sources = calloc((size_t)file->ranks, sizeof(*file->sources));
	if (!file->sources)
		return -ENOMEM;
	kr_order_receives(order, file->topology, file->aggregators, index, file->sources);
	return kr_slots_prepare(&file->slots, file->hints.slots, file->ranks);
}

/* Gives the result of an agreement to MPI_File_get_info. */
static void publish(struct kr_mpifile *file, int class)
{
	KR_SCOPED_LOCK(&file->lock);
	file->effective = file->hints;
	file->effective.cb_nodes = class == MPI_SUCCESS ? file->aggregators->count : 0;
	if (!file->effective.cb_config_list[0])
		strcpy(file->effective.cb_config_list, "*:1"); /* the default */
	file->effective.striping_unit = kr_file_stripe(file);
}

bool kr_file_effective(struct kr_mpifile *file, struct kr_hints *ret_hints)
{
	KR_SCOPED_LOCK(&file->lock);
	*ret_hints = file->effective;
	return ret_hints->cb_nodes > 0;
}

int kr_file_agree_hints(struct kr_mpifile *file)
{
	int class = MPI_SUCCESS;

	if (PMPI_Bcast(&file->wanted, sizeof(file->wanted), MPI_BYTE, 0, file->comm) != MPI_SUCCESS)
		class = MPI_ERR_IO;
	file->agreed = file->hints = file->wanted;
	if (file->hints.cb_buffer_size == 0)
		file->hints.cb_buffer_size = kr_hints_piece(file->ranks);
	drop_aggregators(file);
	kr_write_order_unseen(file);
	kr_views_drop_sent(&file->views);
	if (class == MPI_SUCCESS)
		class = kr_mpi_class(place_aggregators(file));
	class = kr_file_agree(file, class);
	publish(file, class);
	return class;
}

/* ---- opening and closing ---- */

static int open_flags(int amode)
{
	if (amode & MPI_MODE_RDWR)
		return O_RDWR;
	return amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDONLY;
}

static void file_free(struct kr_mpifile *file)
{
	if (file->comm != MPI_COMM_NULL)
		PMPI_Comm_free(&file->comm);
	kr_shape_fini(&file->shape);
	kr_own_view_fini(&file->view);
	drop_aggregators(file);
	kr_topology_free(file->topology);
	kr_views_fini(&file->views);
	kr_io_thread_fini(&file->io);
	kr_io_thread_fini(&file->worker);
	pthread_mutex_destroy(&file->lock);
	free(file->records);
	free(file->name);
	free(file);
}

enum mode {
	MODE_OFF,   /* all files are left to the MPI library */
	MODE_AUTO,  /* files on a kairan mount are handled */
	MODE_FORCE, /* all regular files are handled */
};

/* $KAIRAN_MPIIO: off, auto or force. */
static enum mode mode = MODE_AUTO;

static void read_mode(void)
{
	const char *value = getenv("KAIRAN_MPIIO");

	if (!value || strcmp(value, "") == 0 || strcmp(value, "auto") == 0)
		return;
	mode = strcmp(value, "force") == 0 ? MODE_FORCE : MODE_OFF;
	if (mode == MODE_OFF && strcmp(value, "off") != 0)
		fprintf(stderr, "libkairan-mpiio: KAIRAN_MPIIO=%s: must be off, auto or force; taken as off\n", value);
}

/* This rank's vote; opens the file beside MPI's.  If that unexpectedly fails the user gets a message: all ranks leave
 * the file to MPI, which may be slow or hit a bug of the MPI library. */
static bool may_be_ours(const char *name, int amode, struct kr_mount **ret_mount)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	pthread_once(&once, read_mode);
	if (mode == MODE_OFF || (amode & MPI_MODE_SEQUENTIAL))
		return false;
	err = kr_mount_open(name, open_flags(amode), ret_mount);
	if (err < 0) {
		if (err != -ENXIO && (mode == MODE_FORCE || kr_mount_maybe(name)))
			fprintf(stderr, "libkairan-mpiio: %s: the file is left to the MPI library\n", kr_fail_reason());
		return false;
	}
	return mode == MODE_FORCE || kr_mount_info(*ret_mount);
}

static struct kr_mpifile *file_new(int amode, struct kr_mount *mount, MPI_File fh)
{
	struct kr_mpifile *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fh = fh;
	file->comm = MPI_COMM_NULL;
	file->amode = amode;
	file->mount = mount;
	kr_own_view_init_bytes(&file->view);
	pthread_mutex_init(&file->lock, NULL);
	kr_io_thread_init(&file->io, "kr-mpiio");
	kr_io_thread_init(&file->worker, "kr-mpiio-nb");
	return file;
}

/* The position of this rank's node in the mount's ring, or KR_NO_RING.  Collective. */
static uint32_t ring_position(const struct kr_mpifile *file)
{
	KR_AUTO_FREE struct kr_ring_member *all = kr_xcalloc((size_t)file->ranks, sizeof(*all));
	const struct kr_mount_info *mount = kr_mount_info(file->mount);
	struct kr_ring_member own = {0};

	if (mount) {
		memcpy(own.node, mount->node, sizeof(own.node) - 1);
		memcpy(own.ring, mount->ring, sizeof(own.ring) - 1);
	}
	if (PMPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, file->comm) != MPI_SUCCESS)
		return KR_NO_RING;
	return kr_ring_position(all, (uint32_t)file->ranks, &own);
}

/* Prepares what needs the communicator, on all ranks.  0 or -errno. */
static int prepare(struct kr_mpifile *file, MPI_Info info)
{
	const struct kr_mount_info *mount = kr_mount_info(file->mount);
	int err;

	kr_hints_defaults(&file->wanted);
	if (mount)
		file->wanted.striping_unit = mount->stripe_size;
	if (getenv("KAIRAN_MPIIO_HINTS"))
		kr_hints_set_list(&file->wanted, getenv("KAIRAN_MPIIO_HINTS"));
	kr_info_read(info, &file->wanted);
	err = kr_topology_of_comm(file->comm, ring_position(file), &file->topology);
	if (err < 0)
		return err;
	file->records = calloc((size_t)file->ranks, sizeof(*file->records));
	if (!file->records)
		return -ENOMEM;
	kr_shape_init_bytes(&file->shape);
	return kr_views_init(&file->views, file->ranks);
}

static bool set_up(struct kr_mpifile *file, MPI_Comm comm, const char *name, MPI_Info info)
{
	int level = MPI_THREAD_SINGLE;

	if (PMPI_Comm_dup(comm, &file->comm) != MPI_SUCCESS)
		return false;
	PMPI_Comm_set_errhandler(file->comm, MPI_ERRORS_RETURN);
	PMPI_Comm_rank(file->comm, &file->rank);
	PMPI_Comm_size(file->comm, &file->ranks);
	if (!all_agree(file->comm, prepare(file, info) == 0) || kr_file_agree_hints(file) != MPI_SUCCESS)
		return false;
	kr_write_order_init(file, all_agree(file->comm, kr_mount_info(file->mount) != NULL));
	PMPI_Query_thread(&level);
	file->threads = all_agree(file->comm, level == MPI_THREAD_MULTIPLE);
	file->name = kr_xstrdup(name);
	if (file->hints.trace[0])
		file->trace = kr_trace_new(file->comm, file->hints.trace, name, file->topology->node[file->rank]);
	return true;
}

static void enter(struct kr_mpifile *file)
{
	KR_SCOPED_LOCK(&table.lock);
	kr_table_insert(&table.files, &file->link, hash_of(file->fh));
}

/* MPI's open has refused intercommunicators and null handles on every rank. */
static bool can_agree(MPI_Comm comm)
{
	int inter;

	return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter;
}

void kr_file_attach(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File fh)
{
	struct kr_mpifile *file = NULL;
	struct kr_mount *mount = NULL;
	bool ours;

	if (!can_agree(comm))
		return;
	ours = fh != MPI_FILE_NULL && may_be_ours(name, amode, &mount);
	if (ours)
		file = file_new(amode, mount, fh);
	/* Every rank takes part, whatever its environment says, since the others would wait for it. */
	ours = all_agree(comm, file != NULL) && set_up(file, comm, name, info);
	if (ours) {
		kr_file_take_pointer(file);
		enter(file);
	} else {
		kr_mount_close(mount);
		if (file)
			file_free(file);
	}
}

int kr_file_detach(struct kr_mpifile *file)
{
	int class;

	kr_file_quiesce(file);
	pthread_mutex_lock(&table.lock);
	kr_table_remove(&table.files, &file->link);
	pthread_mutex_unlock(&table.lock);
	class = kr_file_agree(file, kr_mpi_class(kr_mount_close(file->mount)));
	if (file->hints.summary)
		kr_tally_print(&file->tally, file->comm, file->name);
	kr_trace_free(file->trace);
	file_free(file);
	return class;
}

void kr_file_quiesce(struct kr_mpifile *file)
{
	kr_io_drain(&file->worker);
}

/* ---- the file pointer ---- */

void kr_file_give_pointer(struct kr_mpifile *file)
{
	kr_real()->File_seek(file->fh, (MPI_Offset)file->position, MPI_SEEK_SET);
}

void kr_file_take_pointer(struct kr_mpifile *file)
{
	MPI_Offset position = 0;

	kr_real()->File_get_position(file->fh, &position);
	file->position = (uint64_t)position;
}
