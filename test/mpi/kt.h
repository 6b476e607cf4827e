// What the MPI-IO test programs share: checks that end the whole job, and a model of a file as plain bytes.
//
// Every rank keeps the whole model and applies to it what every rank writes, so contents are functions of numbers that
// all ranks know.  Where the bytes of a datatype lie is found out by MPI_Pack of index bytes through the type, which no
// MPI-IO library has a part in.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

extern int kt_rank, kt_size;
extern const char *kt_doing; // what failures name

void kt_init(int *argc, char ***argv);
void kt_fini(void);
// Says what is wrong and ends the job.
_Noreturn void kt_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The error class of a return code; prints nothing.
int kt_class(int code);
const char *kt_class_name(int code);

#define KT_CHECK(ok, ...) \
	do { \
		if (!(ok)) \
			kt_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
#define KT_OK(call) \
	do { \
		int code_ = (call); \
		if (code_) \
			kt_fail(__FILE__, __LINE__, "%s: %s", #call, kt_class_name(code_)); \
	} while (0)
// The call must fail with this class.
#define KT_FAILS(class, call) \
	do { \
		int code_ = (call); \
		if (kt_class(code_) != (class)) \
			kt_fail(__FILE__, __LINE__, "%s: %s instead of " #class, #call, kt_class_name(code_)); \
	} while (0)

// The layer's slots, by a hint of MPI_File_get_info that only it knows. 0: it does not handle the file.
int kt_slots(MPI_File file);
bool kt_is_layers(MPI_File file);

void *kt_alloc(size_t size); // zeroed; ends the job when there is none
double kt_now(void);
// Bytes that are different for every seed.
void kt_fill(void *buffer, size_t length, uint64_t seed);
uint64_t kt_random(uint64_t *state);
uint64_t kt_below(uint64_t *state, uint64_t limit);

struct kt_model {
	unsigned char *bytes; // zero beyond size
	uint64_t size, room;
};
void kt_model_init(struct kt_model *model, uint64_t room);
void kt_model_fini(struct kt_model *model);
void kt_model_resize(struct kt_model *model, uint64_t size);
void kt_model_put(struct kt_model *model, uint64_t offset, const void *data, size_t length);

// A file view, or a buffer's layout: where data byte i lies.
struct kt_view {
	MPI_Offset displacement;
	MPI_Datatype etype, filetype; // borrowed
	int64_t extent;
	int64_t *positions; // of the data bytes of one filetype
	size_t size;        // how many
};
void kt_view_init(struct kt_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype);
void kt_view_fini(struct kt_view *view);
int64_t kt_view_position(const struct kt_view *view, uint64_t data_byte);
// A collective or independent write of `length` bytes that starts at the view's byte `start`, as the file sees it.
void kt_model_write(
	struct kt_model *model, const struct kt_view *view, uint64_t start, const void *data, size_t length);
// What a read gives; returns the count of bytes before the end of the file.
size_t kt_model_read(
	const struct kt_model *model, const struct kt_view *view, uint64_t start, void *data, size_t length);

// `dir` may start with the prefix of a driver ("ufs:"), which the second leaves out.
const char *kt_path(const char *dir, const char *name);
const char *kt_posix_path(const char *dir, const char *name);
// Reads the file past the MPI library and compares it; every rank does so on its own node.
void kt_same(const struct kt_model *model, const char *posix_path);
// Rank 0 writes the model to a plain file.
void kt_save(const struct kt_model *model, const char *posix_path);
// Compares a buffer, tells the first difference.
void kt_same_bytes(const void *got, const void *expected, size_t length, const char *what);
