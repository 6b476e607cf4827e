// Random MPI datatypes, the same on every rank for the same state of the generator.
#pragma once

#include <mpi.h>
#include <stdint.h>

// One of some predefined and small derived types; *ret_derived: free it after use.
MPI_Datatype kt_random_etype(uint64_t *state, int *ret_derived);
// A committed type of nested constructors over `base`, of about `room` bytes of extent, at most 4 times as many: lower
// bound 0, displacements ascend without overlap and are multiples of base's extent. As a file view must be.
MPI_Datatype kt_random_file_type(uint64_t *state, MPI_Datatype base, int64_t room);
// The same for memory, where pieces may also lie in any order and before the buffer's address; no overlap.
MPI_Datatype kt_random_memory_type(uint64_t *state, MPI_Datatype base, int64_t room);
