/* Pages of 4096 bits in a hash table; a page exists while it has a bit set. */
#include "ring/blockset.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"

enum { PAGE_BITS = 4096, PAGE_WORDS = PAGE_BITS / 64 };

struct page {
	struct kr_table_link link;
	uint64_t number;
	uint32_t count;
	uint64_t words[PAGE_WORDS];
};

static struct page *find_page(const struct kr_blockset *set, uint64_t number)
{
	return KR_TABLE_FIND(struct page, page, &set->pages, kr_hash_u64(number), link, page->number == number);
}

static struct page *make_page(struct kr_blockset *set, uint64_t number)
{
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->number = number;
	kr_table_insert(&set->pages, &page->link, kr_hash_u64(number));
	return page;
}

void kr_blockset_init(struct kr_blockset *set)
{
	kr_table_init(&set->pages);
	set->count = 0;
}

void kr_blockset_fini(struct kr_blockset *set)
{
	kr_blockset_clear(set);
}

int kr_blockset_add(struct kr_blockset *set, uint64_t block)
{
	struct page *page = find_page(set, block / PAGE_BITS);
	uint64_t bit = UINT64_C(1) << (block % 64);
	uint64_t *word;

	if (!page && !(page = make_page(set, block / PAGE_BITS)))
		return -ENOMEM;
	word = &page->words[block % PAGE_BITS / 64];
	if (*word & bit)
		return 0;
	*word |= bit;
	page->count++;
	set->count++;
	return 1;
}

bool kr_blockset_remove(struct kr_blockset *set, uint64_t block)
{
	struct page *page = find_page(set, block / PAGE_BITS);
	uint64_t bit = UINT64_C(1) << (block % 64);
	uint64_t *word;

	if (!page)
		return false;
	word = &page->words[block % PAGE_BITS / 64];
	if (!(*word & bit))
		return false;
	*word &= ~bit;
	set->count--;
	if (--page->count == 0) {
		kr_table_remove(&set->pages, &page->link);
		free(page);
	}
	return true;
}

bool kr_blockset_has(const struct kr_blockset *set, uint64_t block)
{
	const struct page *page = find_page(set, block / PAGE_BITS);

	return page && (page->words[block % PAGE_BITS / 64] >> (block % 64) & 1);
}

void kr_blockset_clear(struct kr_blockset *set)
{
	kr_table_free_all(&set->pages, offsetof(struct page, link));
	set->count = 0;
}

/* The first position >= FROM in PAGE that is not set; PAGE_BITS if none. */
static uint64_t scan_page(const struct page *page, uint64_t from)
{
	for (uint64_t i = from / 64; i < PAGE_WORDS; i++) {
		uint64_t word = ~page->words[i];

		if (i == from / 64)
			word &= UINT64_MAX << (from % 64);
		if (word)
			return i * 64 + (uint64_t)__builtin_ctzll(word);
	}
	return PAGE_BITS;
}

uint64_t kr_blockset_next_absent(const struct kr_blockset *set, uint64_t from, uint64_t end)
{
	while (from < end) {
		uint64_t base = from / PAGE_BITS * PAGE_BITS;
		const struct page *page = find_page(set, from / PAGE_BITS);
		uint64_t found = page ? scan_page(page, from - base) : from - base;

		if (found < PAGE_BITS)
			return KR_MIN(base + found, end);
		if (base > UINT64_MAX - PAGE_BITS)
			break;
		from = base + PAGE_BITS;
	}
	return end;
}
