/* A set of block numbers: a bitmap in pages, so that the cost for a sparse file of many TiB depends on the blocks in
 * use.
 * Pure data, no locks: the owner's lock guards it. */
#ifndef KR_RING_BLOCKSET_H
#define KR_RING_BLOCKSET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/table.h"

struct kr_blockset {
	struct kr_table pages;
	uint64_t count; /* blocks in the set */
};

void kr_blockset_init(struct kr_blockset *set);
void kr_blockset_fini(struct kr_blockset *set);
/* 1: BLOCK is new in the set; 0: the set had it; -ENOMEM. */
int kr_blockset_add(struct kr_blockset *set, uint64_t block);
/* Whether the set had BLOCK. */
bool kr_blockset_remove(struct kr_blockset *set, uint64_t block);
bool kr_blockset_has(const struct kr_blockset *set, uint64_t block);
/* Empties the set and frees its pages. */
void kr_blockset_clear(struct kr_blockset *set);
/* The first block >= FROM and < END that is not in the set; END if there is none. */
uint64_t kr_blockset_next_absent(const struct kr_blockset *set, uint64_t from, uint64_t end);

#endif
