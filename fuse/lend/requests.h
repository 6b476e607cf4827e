/* What a borrower knows of its kernel: which requests are not answered, which of these a signal ends, whose groups they
 * come with, and of which files it may use something without asking.  Time comes from the caller.  One thread.
 */
#ifndef KR_FUSE_LEND_REQUESTS_H
#define KR_FUSE_LEND_REQUESTS_H

#include <linux/fuse.h>

#include "common/base/table.h"

struct kr_lend_requests {
	struct kr_table unanswered, held;
};

struct kr_lend_interrupt {
	struct fuse_in_header header;
	struct fuse_interrupt_in in;
};

void kr_lend_requests_init(struct kr_lend_requests *requests);
void kr_lend_requests_fini(struct kr_lend_requests *requests);
/* A MESSAGE from /dev/fuse, at least its header.  True: the lender is to get it now.  Interrupts come later, by
 * kr_lend_requests_interrupt. */
bool kr_lend_requests_take(struct kr_lend_requests *requests, const void *message, size_t length, uint64_t now_ns);
/* The lender's answer, at least its header.  It lends the kernel names and attributes for MOST_NS at most, and for no
 * time if it comes late.  False: there is no such request. */
bool kr_lend_requests_answered(
	struct kr_lend_requests *requests, void *reply, size_t length, uint64_t most_ns, uint64_t now_ns);
/* Whether a signal of the program ends its wait for one of the requests now (fuse/base/signals.h).  True, once for
 * each: *RET_INTERRUPT is for the lender. */
bool kr_lend_requests_interrupt(
	struct kr_lend_requests *requests, uint64_t now_ns, struct kr_lend_interrupt *ret_interrupt);
/* The number of each file that is open, or whose ACLs the kernel may keep. */
void kr_lend_requests_each_held(
	struct kr_lend_requests *requests, void (*visit)(uint64_t number, void *context), void *context);
/* Its pages were all dropped (or no more is known of that), and whether none has come since. */
void kr_lend_requests_emptied(struct kr_lend_requests *requests, uint64_t number, bool empty);
bool kr_lend_requests_is_empty(struct kr_lend_requests *requests, uint64_t number);
/* The supplementary groups of the request's caller, where the request may need them. */
uint32_t kr_lend_requests_groups(const struct fuse_in_header *header, uint32_t groups[KR_GROUPS_MAX]);

#endif
