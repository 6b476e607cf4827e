/* What layer.c draws, and what it must come to (layer_model.c). */
#ifndef KR_TEST_MPI_LAYER_H
#define KR_TEST_MPI_LAYER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILE_MAX = 1 << 20, DATA_MAX = 1 << 16, BEFORE = 0x5a, UNTOUCHED = 0xa5 };

extern int rank, ranks;
extern unsigned char *model; /* of the file, the same on all ranks */
extern uint64_t model_size;
extern uint64_t draw_state;
extern const char *doing;

#define fail(...) fail_at(__LINE__, __VA_ARGS__)
void __attribute__((format(printf, 2, 3))) fail_at(int line, const char *format, ...);
#define CHECK(call) check(call, #call)
void check(int rc, const char *what);
/* The same numbers on all ranks, as long as all ask for as many. */
unsigned draw(unsigned below);

/* Memory for a call: BYTES bytes, as COUNT of TYPE. */
struct memory {
	MPI_Datatype type;
	int count, bytes;
	size_t origin, span;
	unsigned char *array;
	int64_t *offsets;
};
void make_memory(struct memory *memory, int bytes);
void free_memory(struct memory *memory);

/* A view of this rank, and the bytes of a call in it: OFFSETS in the file. */
struct place {
	MPI_Offset displacement;
	MPI_Datatype filetype;
	int start, bytes;
	int64_t *offsets;
};
void make_place(struct place *place);
void free_place(struct place *place);

/* Byte I of what WHO writes in STEP. */
unsigned char value(unsigned step, int who, int i);
/* Every rank's writes, in the order of the ranks, into everybody's model. */
void model_write(unsigned step, const int64_t *offsets, int bytes);
/* The whole file, by POSIX, on rank 0. */
void check_file(const char *path);

#endif
