// The scenarios of conformance.c, by what they try. Each is collective over MPI_COMM_WORLD, leaves a file NAME on the
// mount and the model of it in the directory of expectations; its checks end the job.
#pragma once

#include "kt.h"

extern const char *dir;    // of the files, perhaps with a driver's prefix
extern const char *expect; // of the models
extern MPI_Info hints;

// Opens on all ranks. Fails the job otherwise.
MPI_File open_all(const char *name, int mode);
// Closes, compares on all nodes, keeps the model for the caller of the program.
void close_and_compare(MPI_File *file, const char *name, struct kt_model *model);
// What others wrote becomes visible: sync, barrier, sync.
void sync_barrier_sync(MPI_File file);
// Rank r's filetype when slots of `block` bytes go round `slots` owners: one slot, then the others' room.
MPI_Datatype slot_type(int block, int slots);
// A committed MPI_BYTE vector for memory: count pieces of block bytes, `stride` apart.
MPI_Datatype memory_type(int count, int block, int stride);
// Rank 0 fills the file with known bytes, beforehand: the gaps of later writes must keep them.
void prefill(MPI_File file, struct kt_model *model, size_t length);

// conformance_data.c
void independent(void);
void strided(void);
void collective(void);
void complementary(void);
void memory(void);
void split(void);
void nonblocking(void);
void atomic(void);
void atomic_strided(void);
void syncs(void);
void end_of_file(void);
void end_of_file_all(void);
// conformance_names.c
void names(void);
void resize(void);
void preallocate(void);
void pointers(void);
void seek_end(void);
void shared(void);
void ordered(void);
