/* The positions of a datatype's bytes: an immutable, reference-counted tree of repeats, made once from an MPI datatype
 * (typemap_mpi.h) and walked by cursors (cursor.h).
 *
 * A typemap is a displacement, a layout, and the lower bound and extent with which copies of it lie side by side.  A
 * layout is one of
 *   bytes(n)                        n bytes at 0
 *   repeat(count, stride, layout)   count >= 2 copies, STRIDE bytes apart (may be negative or 0)
 *   list({displacement, layout}...) at least 2 parts, one after the other in data order
 * Its first data byte in data order is always at 0.  So a vector of 48,000 regions costs no more than one region.
 *
 * Normal form.  Constructors return the same tree for the same regular layout of bytes.  No repeat has one copy; bytes
 * that touch are one; a contiguous repeat of bytes is bytes; repeats that continue each other are one.  Three or more
 * equal parts of a list at a constant distance are a repeat; a periodic list is a repeat of its period; there are no
 * empty parts.  (Irregular lists of lists keep their grouping, and can have several trees.)  A cursor joins neighbours
 * anyway.
 *
 * All arithmetic is checked: -EOVERFLOW for more than 62 bits, -E2BIG for more than KR_TYPEMAP_DEPTH levels.  Offsets
 * are signed (a memory type may reach below its address), counts of data bytes unsigned.
 *
 * Threads: a typemap never changes, the count of references is atomic.  Any thread may call every function; none
 * blocks.  No MPI here, no global state.
 */
#ifndef KR_MPIIO_TYPEMAP_H
#define KR_MPIIO_TYPEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KR_TYPEMAP_DEPTH = 40, /* levels of a layout */
	KR_TYPEMAP_DIMS = 64,  /* of a subarray or darray */
};
#define KR_TYPEMAP_LIMIT (INT64_C(1) << 62) /* every offset and size is below it in magnitude */

struct kr_typenode; /* typemap_priv.h */

struct kr_typemap {
	unsigned refs;              /* atomic; only for kr_typemap_get and _put */
	int64_t displacement;       /* of the first data byte in data order */
	int64_t lb, extent;         /* copy i lies i * extent bytes after copy 0; extent may be negative or 0 */
	struct kr_typenode *layout; /* owned */
};

/* A part of a struct or list, in bytes of the new type. COUNT copies of MAP. */
struct kr_part {
	int64_t displacement;
	uint64_t count;
	struct kr_typemap *map; /* borrowed */
};

/* ---- making: each returns 0 and an owned reference, or -ENOMEM, -EOVERFLOW, -E2BIG; borrows the given maps ---- */

/* LENGTH bytes (0 too), lb 0, extent LENGTH: a basic type. */
int kr_typemap_bytes(uint64_t length, struct kr_typemap **ret_map);
/* COUNT copies one EXTENT apart: MPI_Type_contiguous. */
int kr_typemap_contiguous(uint64_t count, struct kr_typemap *map, struct kr_typemap **ret_map);
/* COUNT blocks, STRIDE bytes apart, of BLOCK copies each: MPI_Type_create_hvector. */
int kr_typemap_vector(
	uint64_t count, uint64_t block, int64_t stride, struct kr_typemap *map, struct kr_typemap **ret_map);
/* The parts in data order: MPI_Type_create_struct, and hindexed when all parts have one map.  lb and extent are the
 * smallest and the span of the parts'.  The caller adds C's padding at the end (kr_typemap_resized).  No part: empty.
 */
int kr_typemap_struct(size_t count, const struct kr_part *parts, struct kr_typemap **ret_map);
/* Same bytes, other lb and extent: MPI_Type_create_resized. */
int kr_typemap_resized(struct kr_typemap *map, int64_t lb, int64_t extent, struct kr_typemap **ret_map);

/* The smallest map whose endless tiling touches the same bytes in the same order; its lb is 0.  Equal tilings of
 * regular maps give equal tiles. */
int kr_typemap_tile(struct kr_typemap *map, struct kr_typemap **ret_map);

enum kr_array_order { KR_ARRAY_C, KR_ARRAY_FORTRAN }; /* last, or first, dimension varies fastest */
/* The block [starts, starts + subsizes) of an array of SIZES.  -EINVAL unless 1 <= dims <= KR_TYPEMAP_DIMS, sizes >= 1
 * and the block lies inside (an empty block is allowed). */
int kr_typemap_subarray(unsigned dims, const uint64_t *sizes, const uint64_t *subsizes, const uint64_t *starts,
	enum kr_array_order order, struct kr_typemap *map, struct kr_typemap **ret_map);

enum kr_distribution { KR_DISTRIBUTE_NONE, KR_DISTRIBUTE_BLOCK, KR_DISTRIBUTE_CYCLIC };
struct kr_darray_dim {
	uint64_t size; /* elements of the whole array */
	enum kr_distribution distribution;
	uint64_t block;     /* elements per block; 0 = the default */
	uint64_t processes; /* 1 for KR_DISTRIBUTE_NONE */
};
/* RANK's part of an array distributed over a grid of processes (ranks in row-major order whatever ORDER says, MPI-3.1
 * 4.1.4).  -EINVAL: the standard forbids these arguments. */
int kr_typemap_darray(uint64_t rank, unsigned dims, const struct kr_darray_dim *dim, enum kr_array_order order,
	struct kr_typemap *map, struct kr_typemap **ret_map);

/* One more reference; returns MAP. */
struct kr_typemap *kr_typemap_get(struct kr_typemap *map);
/* NULL is allowed. */
void kr_typemap_put(struct kr_typemap *map);

/* ---- properties ---- */

uint64_t kr_typemap_size(const struct kr_typemap *map); /* data bytes of one copy */
/* The lowest offset with data, and the one after the highest; both 0 when there is no data. */
int64_t kr_typemap_true_lb(const struct kr_typemap *map);
int64_t kr_typemap_true_ub(const struct kr_typemap *map);
/* Regions of one copy before neighbours are joined; UINT64_MAX stands for that many and more. */
uint64_t kr_typemap_runs(const struct kr_typemap *map);
/* There is data, and any number of copies is one run without holes. */
bool kr_typemap_contiguous_tiles(const struct kr_typemap *map);
/* Data order is offset order and nothing overlaps, in one copy. */
bool kr_typemap_monotonic(const struct kr_typemap *map);
/* The same over any number of copies: a file view, and seeking by offset, need this. */
bool kr_typemap_monotonic_tiles(const struct kr_typemap *map);

/* ---- bytes for another rank ----
 * Numbers are LEB128, signed ones zigzag first.
 *   u8 version = 1, displacement (signed), lb (signed), extent (signed), number of layouts (>= 1), then each layout:
 *     0 length                                      bytes
 *     1 count, stride (signed), child               repeat
 *     2 n, n x {displacement - the one before (signed), child}   list
 * A child is how many layouts back it was written (1 = the one before); the last layout is the typemap's.  Equal
 * layouts are written once, so equal maps have equal bytes. */

/* Owned bytes; 0 or -ENOMEM. */
int kr_typemap_to_bytes(const struct kr_typemap *map, uint8_t **ret_bytes, size_t *ret_length);
/* Any bytes are safe: work and memory are at most proportional to their number.  -EBADMSG: kr_typemap_to_bytes does not
 * write such bytes; else as the constructors. */
int kr_typemap_from_bytes(const uint8_t *bytes, size_t length, struct kr_typemap **ret_map);

#endif
