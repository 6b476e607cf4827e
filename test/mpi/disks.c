// One node's disk fails under collective writes, on mounts: disks DIR NODE full MIB COMMAND | broken COMMAND
//
//   full     somebody else has taken all room on the journal's disk of NODE, until COMMAND
//   broken   COMMAND makes the journal's disk of NODE one that cannot be written
//
// All ranks get the same error class and nobody hangs; files that NODE has no part in go on; what was synced before can
// be read everywhere, also on NODE. After "full", when there is room again, the same file is written whole.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kt.h"

enum { REGION = 4000, SMALL = 250 * REGION };

static const char *dir;
static unsigned char *bytes;
static bool on_node;    // this rank runs on the node with the bad disk
static MPI_Comm others; // the ranks that do not, or those that do

// Regions of all ranks of the communicator in turn, in stripes of 1 MiB over all their nodes.
static MPI_File open_strided(MPI_Comm comm, const char *name)
{
	MPI_Info hints;
	MPI_File file;
	MPI_Datatype one, type;
	int rank, size;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	MPI_Info_create(&hints);
	MPI_Info_set(hints, "romio_cb_write", "enable");
	MPI_Info_set(hints, "romio_cb_read", "enable");
	MPI_Info_set(hints, "striping_unit", "1048576");
	KT_OK(MPI_File_open(comm, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
	MPI_Info_free(&hints);
	MPI_Type_contiguous(REGION, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, (MPI_Aint)REGION * size, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, (MPI_Offset)REGION * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	MPI_Type_free(&one);
	MPI_Type_free(&type);
	return file;
}

static int write_part(MPI_File file, size_t length)
{
	return kt_class(MPI_File_write_at_all(file, 0, bytes, (int)length, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void check_part(MPI_File file, size_t length, bool together)
{
	unsigned char *got = kt_alloc(length);
	KT_OK(together ? MPI_File_read_at_all(file, 0, got, (int)length, MPI_BYTE, MPI_STATUS_IGNORE) :
			 MPI_File_read_at(file, 0, got, (int)length, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_same_bytes(got, bytes, length, together ? "read by all" : "read alone");
	free(got);
}

static void same_class(int class, int expected)
{
	int least, most;
	MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	KT_CHECK(least == expected && most == expected, "classes from %d to %d instead of %d", least, most, expected);
}

static void full(size_t length, const char *make_room)
{
	MPI_File file = open_strided(MPI_COMM_WORLD, "full"),
		 apart = open_strided(others, on_node ? "full-on" : "full-apart");
	int class, tries = 0;
	double start;
	same_class(write_part(file, length), MPI_ERR_NO_SPACE);
	if (!on_node)
		KT_CHECK(write_part(apart, SMALL) == MPI_SUCCESS, "a file that the node has no part in");
	MPI_Barrier(MPI_COMM_WORLD);
	if (!kt_rank)
		KT_CHECK(!system(make_room), "%s", make_room);
	MPI_Barrier(MPI_COMM_WORLD);
	// Nobody is left behind: the next call meets.
	KT_OK(MPI_File_sync(file));
	for (start = kt_now(), class = MPI_ERR_NO_SPACE; class != MPI_SUCCESS && kt_now() - start < 90; tries++)
		class = write_part(file, length / 4);
	KT_CHECK(class == MPI_SUCCESS, "class %d after %d tries", class, tries);
	check_part(file, length / 4, true);
	KT_OK(MPI_File_sync(file));
	check_part(file, length / 4, false);
	KT_OK(MPI_File_close(&apart));
	KT_OK(MPI_File_close(&file));
}

static void broken(const char *command)
{
	MPI_File file = open_strided(MPI_COMM_WORLD, "broken"),
		 apart = open_strided(others, on_node ? "broken-on" : "broken-apart");
	KT_CHECK(write_part(file, SMALL) == MPI_SUCCESS && write_part(apart, SMALL) == MPI_SUCCESS, "before");
	KT_OK(MPI_File_sync(file));
	KT_OK(MPI_File_sync(apart));
	if (!kt_rank)
		KT_CHECK(!system(command), "%s", command);
	MPI_Barrier(MPI_COMM_WORLD);
	same_class(write_part(file, 2 * SMALL), MPI_ERR_IO);
	same_class(write_part(file, 2 * SMALL), MPI_ERR_IO);
	if (!on_node) {
		KT_CHECK(write_part(apart, 2 * SMALL) == MPI_SUCCESS, "a file that the node has no part in");
		KT_OK(MPI_File_sync(apart));
		check_part(apart, 2 * SMALL, false);
	}
	check_part(file, SMALL, false);
	// What the close has to say is the same for all.
	int class = kt_class(MPI_File_close(&file)), most;
	MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	KT_CHECK(class == most, "class %d, but %d elsewhere", class, most);
	MPI_File_close(&apart);
}

int main(int argc, char **argv)
{
	char name[MPI_MAX_PROCESSOR_NAME];
	int length;
	kt_init(&argc, &argv);
	KT_CHECK(argc >= 5, "disks DIR NODE full MIB COMMAND | broken COMMAND");
	dir = argv[1];
	kt_doing = argv[3];
	MPI_Get_processor_name(name, &length);
	on_node = !strcmp(name, argv[2]);
	MPI_Comm_split(MPI_COMM_WORLD, on_node, kt_rank, &others);
	size_t most = strcmp(argv[3], "full") ? 2 * SMALL : (size_t)atoi(argv[4]) << 20;
	bytes = kt_alloc(most);
	kt_fill(bytes, most, (uint64_t)kt_rank);
	if (!strcmp(argv[3], "full") && argc == 6)
		full(most, argv[5]);
	else if (!strcmp(argv[3], "broken"))
		broken(argv[4]);
	else
		KT_CHECK(false, "no scenario %s", argv[3]);
	MPI_Comm_free(&others);
	free(bytes);
	if (!kt_rank)
		printf("ok disks %s\n", argv[3]);
	kt_fini();
}
