// See kt.h.
#include "kt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int kt_rank, kt_size;
const char *kt_doing = "";

void kt_init(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &kt_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &kt_size);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

void kt_fini(void)
{
	MPI_Finalize();
}

void kt_fail(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	const char *base = strrchr(file, '/');
	fprintf(stderr, "FAILED: %s, rank %d of %d, %s:%d: %s\n", kt_doing, kt_rank, kt_size, base ? base + 1 : file,
		line, text);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
	_exit(1);
}

int kt_class(int code)
{
	int class = MPI_SUCCESS;
	MPI_Error_class(code, &class);
	return class;
}

const char *kt_class_name(int code)
{
	static char text[MPI_MAX_ERROR_STRING + 64];
	char of_code[MPI_MAX_ERROR_STRING] = "";
	int length;
	MPI_Error_string(code, of_code, &length);
	snprintf(text, sizeof text, "class %d, %s", kt_class(code), of_code);
	return text;
}

int kt_slots(MPI_File file)
{
	MPI_Info used;
	char value[64];
	int flag;
	KT_OK(MPI_File_get_info(file, &used));
	MPI_Info_get(used, "kairan_slots", sizeof value - 1, value, &flag);
	MPI_Info_free(&used);
	return flag ? atoi(value) : 0;
}

bool kt_is_layers(MPI_File file)
{
	return kt_slots(file) > 0;
}

void *kt_alloc(size_t size)
{
	void *memory = calloc(1, size ? size : 1);
	KT_CHECK(memory, "no memory for %zu bytes", size);
	return memory;
}

double kt_now(void)
{
	return MPI_Wtime();
}

uint64_t kt_random(uint64_t *state)
{
	// splitmix64
	uint64_t z = (*state += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t kt_below(uint64_t *state, uint64_t limit)
{
	return limit ? kt_random(state) % limit : 0;
}

void kt_fill(void *buffer, size_t length, uint64_t seed)
{
	unsigned char *bytes = buffer;
	for (size_t i = 0; i < length; i += 8) {
		uint64_t value = kt_random(&seed);
		memcpy(bytes + i, &value, length - i < 8 ? length - i : 8);
	}
}

void kt_model_init(struct kt_model *model, uint64_t room)
{
	*model = (struct kt_model){.bytes = kt_alloc(room), .room = room};
}

void kt_model_fini(struct kt_model *model)
{
	free(model->bytes);
}

void kt_model_resize(struct kt_model *model, uint64_t size)
{
	KT_CHECK(size <= model->room, "the model has no room for %llu bytes", (unsigned long long)size);
	if (size < model->size)
		memset(model->bytes + size, 0, model->size - size);
	model->size = size;
}

void kt_model_put(struct kt_model *model, uint64_t offset, const void *data, size_t length)
{
	if (!length)
		return;
	if (offset + length > model->size)
		kt_model_resize(model, offset + length);
	memcpy(model->bytes + offset, data, length);
}

void kt_view_init(struct kt_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	int size;
	MPI_Type_get_extent(filetype, &lb, &extent);
	MPI_Type_get_true_extent(filetype, &true_lb, &true_extent);
	MPI_Type_size(filetype, &size);
	*view = (struct kt_view){.displacement = displacement,
		.etype = etype,
		.filetype = filetype,
		.extent = extent,
		.size = (size_t)size};
	view->positions = kt_alloc((size_t)size * sizeof *view->positions);
	unsigned char *plane = kt_alloc((size_t)true_extent), *packed = kt_alloc((size_t)size);
	for (int shift = 0; size && shift < 32; shift += 8) {
		for (MPI_Aint i = 0; i < true_extent; i++)
			plane[i] = (unsigned char)(i >> shift);
		int at = 0;
		MPI_Pack(plane - true_lb, 1, filetype, packed, size, &at, MPI_COMM_SELF);
		for (int i = 0; i < size; i++)
			view->positions[i] |= (int64_t)packed[i] << shift;
	}
	for (int i = 0; i < size; i++)
		view->positions[i] += true_lb;
	free(plane);
	free(packed);
}

void kt_view_fini(struct kt_view *view)
{
	free(view->positions);
	view->positions = NULL;
}

int64_t kt_view_position(const struct kt_view *view, uint64_t data_byte)
{
	return view->displacement + (int64_t)(data_byte / view->size) * view->extent +
		view->positions[data_byte % view->size];
}

void kt_model_write(struct kt_model *model, const struct kt_view *view, uint64_t start, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < length; i++)
		kt_model_put(model, (uint64_t)kt_view_position(view, start + i), bytes + i, 1);
}

size_t kt_model_read(
	const struct kt_model *model, const struct kt_view *view, uint64_t start, void *data, size_t length)
{
	unsigned char *bytes = data;
	size_t count = 0;
	for (; count < length; count++) {
		uint64_t position = (uint64_t)kt_view_position(view, start + count);
		if (position >= model->size)
			break;
		bytes[count] = model->bytes[position];
	}
	return count;
}

const char *kt_path(const char *dir, const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

const char *kt_posix_path(const char *dir, const char *name)
{
	const char *colon = strchr(dir, ':');
	return kt_path(colon ? colon + 1 : dir, name);
}

void kt_same_bytes(const void *got, const void *expected, size_t length, const char *what)
{
	const unsigned char *a = got, *b = expected;
	if (!length || !memcmp(a, b, length))
		return;
	size_t first = 0, wrong = 0;
	for (size_t i = length; i-- > 0;) {
		if (a[i] != b[i]) {
			first = i;
			wrong++;
		}
	}
	KT_CHECK(false, "%s: %zu of %zu bytes are wrong, the first at %zu: %02x instead of %02x", what, wrong, length,
		first, a[first], b[first]);
}

void kt_same(const struct kt_model *model, const char *posix_path)
{
	int fd = open(posix_path, O_RDONLY | O_CLOEXEC);
	KT_CHECK(fd >= 0, "%s: %s", posix_path, strerror(errno));
	struct stat st;
	KT_CHECK(!fstat(fd, &st), "%s: %s", posix_path, strerror(errno));
	KT_CHECK((uint64_t)st.st_size == model->size, "%s has %lld bytes, not %llu", posix_path, (long long)st.st_size,
		(unsigned long long)model->size);
	unsigned char *bytes = kt_alloc(model->size);
	for (size_t at = 0; at < model->size;) {
		ssize_t got = pread(fd, bytes + at, model->size - at, (off_t)at);
		KT_CHECK(got > 0, "%s: read at %zu: %s", posix_path, at, got ? strerror(errno) : "end of file");
		at += (size_t)got;
	}
	close(fd);
	kt_same_bytes(bytes, model->bytes, model->size, posix_path);
	free(bytes);
}

void kt_save(const struct kt_model *model, const char *posix_path)
{
	if (kt_rank)
		return;
	int fd = open(posix_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	KT_CHECK(fd >= 0, "%s: %s", posix_path, strerror(errno));
	for (size_t at = 0; at < model->size;) {
		ssize_t put = write(fd, model->bytes + at, model->size - at);
		KT_CHECK(put > 0, "%s: %s", posix_path, strerror(errno));
		at += (size_t)put;
	}
	KT_CHECK(!close(fd), "%s: %s", posix_path, strerror(errno));
}
