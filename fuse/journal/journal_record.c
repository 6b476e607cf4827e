/* See journal_record.h. */
#include "fuse/journal/journal_record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/buf.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's byte order is that of the machines we know");

enum { CHECKED_FROM = offsetof(struct kr_journal_record, seq) };

void kr_journal_header_seal(struct kr_journal_header *header)
{
	header->check = kr_checksum(header, offsetof(struct kr_journal_header, check));
}

bool kr_journal_header_good(const struct kr_journal_header *header, uint32_t version)
{
	return header->magic == KR_JOURNAL_MAGIC && header->version == version && header->incompatible == 0 &&
		header->check == kr_checksum(header, offsetof(struct kr_journal_header, check));
}

uint64_t kr_journal_record_check(const struct kr_journal_record *record, uint64_t salt)
{
	uint64_t check =
		XXH3_64bits_withSeed((const char *)record + CHECKED_FROM, sizeof(*record) - CHECKED_FROM, salt);

	return check ? check : 1;
}

static void flip(void *bytes, size_t bit)
{
	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
}

bool kr_journal_record_repair(struct kr_journal_record *record, uint64_t salt)
{
	uint64_t wrong = record->check ^ kr_journal_record_check(record, salt);

	if ((wrong & (wrong - 1)) == 0) { /* one bit of the check itself */
		record->check ^= wrong;
		return true;
	}
	for (size_t bit = CHECKED_FROM * 8; bit < sizeof(*record) * 8; bit++) {
		flip(record, bit);
		if (record->check == kr_journal_record_check(record, salt))
			return true;
		flip(record, bit);
	}
	return false;
}

uint64_t kr_journal_keep(uint64_t check, uint32_t kept)
{
	struct {
		uint64_t check, low;
	} words = {check, (uint64_t)kept + 1};

	return words.low | XXH3_64bits(&words, sizeof(words)) << 32;
}

static bool keep_exact(const struct kr_journal_record *record, uint64_t keep, uint32_t length, uint32_t *ret_kept)
{
	uint32_t low = (uint32_t)keep;

	if (keep == 0) {
		*ret_kept = length;
		return true;
	}
	if (low == 0 || low - 1 > length || keep != kr_journal_keep(record->check, low - 1))
		return false;
	*ret_kept = low - 1;
	return true;
}

bool kr_journal_kept(const struct kr_journal_record *record, uint32_t length, uint32_t *ret_kept)
{
	if (keep_exact(record, record->keep, length, ret_kept))
		return true;
	for (size_t bit = 0; bit < 64; bit++)
		if (keep_exact(record, record->keep ^ UINT64_C(1) << bit, length, ret_kept))
			return true;
	return false;
}
