// An HPIO-like benchmark of collective I/O: all ranks' regions lie interleaved in one file, a gap after each.
//
//   hpio [-s REGION] [-g GAP] [-n REGIONS] [-x SEED] [-i HINT=VALUE]... [-c m|f|mf] [-f] FILE       under mpirun
//   hpio -v RANKS [-s REGION] [-g GAP] [-n REGIONS] [-x SEED] [-c ...] [-f] FILE                     alone: verifies
//
// Region i of rank r is slot i * ranks + r; a slot is a region and a gap. -c: contiguous in memory, in the file (then a
// rank's regions follow each other without gaps). -f: the file is filled beforehand, gaps too, with other bytes. Prints
// one line "write=S sync=S close=S read=S bytes=N": seconds of the collective write, of MPI_File_sync after the read,
// of the close; of the collective read of the same regions straight after the write. What was read is compared with
// what was written. Verification prints "data=N gaps=N": bytes that are wrong in regions, and in gaps. Beyond the last
// region there must be no file.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kt.h"

static struct {
	uint64_t region, gap, regions, seed;
	bool memory_contiguous, file_contiguous, filled;
	MPI_Info hints;
} options = {.region = 3744, .gap = 256, .regions = 1000, .seed = 1, .hints = MPI_INFO_NULL};

// Cheap, and different for each region, place in it, and seed.
static void fill_region(unsigned char *bytes, uint64_t rank, uint64_t index)
{
	uint64_t state = options.seed * 0x100000001b3 + (rank << 32) + index, value = kt_random(&state);
	for (uint64_t at = 0; at < options.region; at += 8, value += 0x9e3779b97f4a7c15)
		memcpy(bytes + at, &value, options.region - at < 8 ? options.region - at : 8);
}

enum { FILLER = 0xa5 };

static uint64_t place(uint64_t rank, uint64_t ranks, uint64_t index)
{
	if (options.file_contiguous)
		return (rank * options.regions + index) * options.region;
	return (index * ranks + rank) * (options.region + options.gap);
}

static uint64_t file_end(uint64_t ranks)
{
	return place(ranks - 1, ranks, options.regions - 1) + options.region;
}

static int verify(const char *path, uint64_t ranks)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "hpio: %s: %s\n", path, strerror(errno));
		return 1;
	}
	uint64_t data = 0, gaps = 0, end = file_end(ranks), size = (uint64_t)st.st_size;
	unsigned char *file = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL,
		      *region = kt_alloc(options.region);
	if (file == MAP_FAILED) {
		fprintf(stderr, "hpio: %s: %s\n", path, strerror(errno));
		return 1;
	}
	for (uint64_t index = 0; index < options.regions; index++) {
		for (uint64_t rank = 0; rank < ranks; rank++) {
			uint64_t at = place(rank, ranks, index);
			fill_region(region, rank, index);
			for (uint64_t i = 0; i < options.region; i++)
				data += at + i >= size || file[at + i] != region[i];
			for (uint64_t i = options.region; !options.file_contiguous &&
				i < options.region + options.gap && at + i < size && at + i < end;
				i++)
				gaps += file[at + i] != (options.filled ? FILLER : 0);
		}
	}
	gaps += size > end ? size - end : 0;
	printf("data=%llu gaps=%llu\n", (unsigned long long)data, (unsigned long long)gaps);
	return data || gaps;
}

// Rank 0 makes the file anew; then all see it.
static void prepare(const char *path, uint64_t end)
{
	if (!kt_rank) {
		const char *colon = strchr(path, ':'), *posix = colon ? colon + 1 : path;
		unlink(posix);
		if (options.filled) {
			int fd = open(posix, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
			unsigned char *bytes = kt_alloc(1 << 20);
			memset(bytes, FILLER, 1 << 20);
			for (uint64_t at = 0; at < end; at += 1 << 20)
				KT_CHECK(pwrite(fd, bytes, end - at < 1 << 20 ? end - at : 1 << 20, (off_t)at) > 0,
					"%s: %s", posix, strerror(errno));
			KT_CHECK(!fsync(fd) && !close(fd), "%s: %s", posix, strerror(errno));
			free(bytes);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static double longest(double start)
{
	double mine = kt_now() - start, all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void measure(const char *path)
{
	uint64_t ranks = (uint64_t)kt_size, rank = (uint64_t)kt_rank,
		 room = options.region + (options.memory_contiguous ? 0 : options.gap);
	unsigned char *bytes = kt_alloc(options.regions * room), *got = kt_alloc(options.regions * room);
	MPI_Datatype in_file, in_memory, one;
	MPI_File file;
	MPI_Status status;

	for (uint64_t i = 0; i < options.regions; i++)
		fill_region(bytes + i * room, rank, i);
	MPI_Type_contiguous((int)options.region, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0,
		(MPI_Aint)(options.file_contiguous ? options.region : ranks * (options.region + options.gap)),
		&in_file);
	MPI_Type_create_resized(one, 0, (MPI_Aint)room, &in_memory);
	MPI_Type_commit(&in_file);
	MPI_Type_commit(&in_memory);
	prepare(path, file_end(ranks));
	KT_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, options.hints, &file));
	KT_OK(MPI_File_set_view(file, (MPI_Offset)place(rank, ranks, 0), MPI_BYTE, in_file, "native", options.hints));

	MPI_Barrier(MPI_COMM_WORLD);
	double start = kt_now();
	KT_OK(MPI_File_write_all(file, bytes, (int)options.regions, in_memory, &status));
	double writing = longest(start);
	int count;
	MPI_Get_count(&status, in_memory, &count);
	KT_CHECK(count == (int)options.regions, "%d of %llu regions written", count,
		(unsigned long long)options.regions);

	start = kt_now();
	KT_OK(MPI_File_read_at_all(file, 0, got, (int)options.regions, in_memory, &status));
	double reading = longest(start);
	for (uint64_t i = 0; i < options.regions; i++)
		kt_same_bytes(got + i * room, bytes + i * room, options.region, "a region that was just written");

	MPI_Barrier(MPI_COMM_WORLD);
	start = kt_now();
	KT_OK(MPI_File_sync(file));
	double syncing = longest(start);
	start = kt_now();
	KT_OK(MPI_File_close(&file));
	double closing = longest(start);
	if (!rank)
		printf("write=%.4f sync=%.4f close=%.4f read=%.4f bytes=%llu\n", writing, syncing, closing, reading,
			(unsigned long long)(ranks * options.regions * options.region));
	MPI_Type_free(&one);
	MPI_Type_free(&in_file);
	MPI_Type_free(&in_memory);
	free(bytes);
	free(got);
}

static void add_hint(char *text)
{
	char *value = strchr(text, '=');
	KT_CHECK(value, "%s: no value", text);
	*value = 0;
	if (options.hints == MPI_INFO_NULL)
		MPI_Info_create(&options.hints);
	MPI_Info_set(options.hints, text, value + 1);
}

int main(int argc, char **argv)
{
	uint64_t verified_ranks = 0;
	bool alone = argc > 1 && !strcmp(argv[1], "-v");
	if (!alone)
		kt_init(&argc, &argv);
	for (int option; (option = getopt(argc, argv, "v:s:g:n:x:i:c:f")) != -1;) {
		switch (option) {
		case 'v':
			verified_ranks = strtoull(optarg, NULL, 0);
			break;
		case 's':
			options.region = strtoull(optarg, NULL, 0);
			break;
		case 'g':
			options.gap = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options.regions = strtoull(optarg, NULL, 0);
			break;
		case 'x':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			add_hint(optarg);
			break;
		case 'c':
			options.memory_contiguous = strchr(optarg, 'm');
			options.file_contiguous = strchr(optarg, 'f');
			break;
		case 'f':
			options.filled = true;
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc || !options.region || !options.regions) {
		fprintf(stderr, "hpio: one FILE, and regions of at least one byte\n");
		return 2;
	}
	if (alone)
		return verify(argv[optind], verified_ranks);
	kt_doing = "hpio";
	measure(argv[optind]);
	if (options.hints != MPI_INFO_NULL)
		MPI_Info_free(&options.hints);
	kt_fini();
}
