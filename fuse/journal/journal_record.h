/* Checks of single headers and records of the journal (journal_format.h), shared by the writer and the reader.
 * Pure. */
#ifndef KR_FUSE_JOURNAL_RECORD_H
#define KR_FUSE_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "fuse/journal/journal_format.h"

/* Sets the header's check, or says whether it is right (with magic, VERSION and incompatible flags). */
void kr_journal_header_seal(struct kr_journal_header *header);
bool kr_journal_header_good(const struct kr_journal_header *header, uint32_t version);

/* The check that RECORD ought to have; never 0. */
uint64_t kr_journal_record_check(const struct kr_journal_record *record, uint64_t salt);
/* Finds the single wrong bit of a record whose check does not match, and corrects it in RECORD; false: more is
 * wrong. */
bool kr_journal_record_repair(struct kr_journal_record *record, uint64_t salt);

/* The word that says that the first KEPT bytes count (0: the record is dead). */
uint64_t kr_journal_keep(uint64_t check, uint32_t kept);
/* How many of LENGTH bytes count by the record's word; false: the word is damaged (one wrong bit is seen through). */
bool kr_journal_kept(const struct kr_journal_record *record, uint32_t length, uint32_t *ret_kept);

#endif
