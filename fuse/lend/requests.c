/* See requests.h. */
#include "fuse/lend/requests.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/base/signals.h"

/* LOAN_MS: less than names/kernel_names.h and names/kernel_attrs.h allow for. */
enum { OPCODE_TMPFILE = 51 /* older headers lack it */, LOAN_MS = 100 };

struct request {
	struct kr_table_link link;
	struct fuse_in_header header;
	struct fuse_in_header interrupt; /* len 0: none */
	uint64_t taken_ns, interrupted_ns;
	bool told; /* the lender knows of the interrupt */
};

/* A file of which the kernel may keep something without asking again. */
struct held {
	struct kr_table_link link;
	uint64_t number;
	unsigned handles; /* open ones: its pages */
	bool acl;         /* its ACLs were asked for, and it is not forgotten yet */
	bool empty;       /* its pages were dropped, and none has come since */
};

void kr_lend_requests_init(struct kr_lend_requests *requests)
{
	kr_table_init(&requests->unanswered);
	kr_table_init(&requests->held);
}

void kr_lend_requests_fini(struct kr_lend_requests *requests)
{
	kr_table_free_all(&requests->unanswered, offsetof(struct request, link));
	kr_table_free_all(&requests->held, offsetof(struct held, link));
}

/* --- what the kernel holds -------------------------------------------------------------------- */

/* NULL: there is none, and none is to be made. */
static struct held *find_held(struct kr_lend_requests *requests, uint64_t number, bool make)
{
	const uint64_t hash = kr_hash_u64(number);
	struct held *held;

	KR_TABLE_FOR_EACH_OF(held, &requests->held, hash, link)
		if (held->number == number)
			return held;
	if (!make)
		return NULL;
	held = kr_xcalloc(1, sizeof(*held));
	held->number = number;
	kr_table_insert(&requests->held, &held->link, hash);
	return held;
}

static void drop_if_idle(struct kr_lend_requests *requests, struct held *held)
{
	if (!held || held->handles > 0 || held->acl)
		return;
	kr_table_remove(&requests->held, &held->link);
	free(held);
}

static void released(struct kr_lend_requests *requests, uint64_t number)
{
	struct held *held = find_held(requests, number, false);

	if (held && held->handles > 0)
		held->handles--;
	drop_if_idle(requests, held);
}

static void forgotten(struct kr_lend_requests *requests, uint64_t number)
{
	struct held *held = find_held(requests, number, false);

	if (held)
		held->acl = false;
	drop_if_idle(requests, held);
}

static void many_forgotten(struct kr_lend_requests *requests, const uint8_t *body, size_t length)
{
	struct fuse_batch_forget_in in;
	struct fuse_forget_one one;

	if (length < sizeof(in))
		return;
	memcpy(&in, body, sizeof(in));
	for (size_t i = 0, at = sizeof(in); i < in.count && at + sizeof(one) <= length; i++, at += sizeof(one)) {
		memcpy(&one, body + at, sizeof(one));
		forgotten(requests, one.nodeid);
	}
}

void kr_lend_requests_each_held(
	struct kr_lend_requests *requests, void (*visit)(uint64_t number, void *context), void *context)
{
	const struct held *held;

	KR_TABLE_FOR_EACH(held, &requests->held, link)
		visit(held->number, context);
}

/* --- requests --------------------------------------------------------------------------------- */

static struct request *find_request(struct kr_lend_requests *requests, uint64_t unique)
{
	return KR_TABLE_FIND(struct request, request, &requests->unanswered, kr_hash_u64(unique), link,
		request->header.unique == unique);
}

static void note_interrupt(
	struct kr_lend_requests *requests, const struct fuse_in_header *header, const void *body, uint64_t now_ns)
{
	struct fuse_interrupt_in in;
	struct request *request;

	memcpy(&in, body, sizeof(in));
	request = find_request(requests, in.unique);
	if (!request)
		return;
	request->interrupt = *header;
	request->interrupted_ns = now_ns;
}

static bool is_acl(const void *message, size_t length)
{
	static const char prefix[] = "system.posix_acl_";
	const size_t name = sizeof(struct fuse_in_header) + sizeof(struct fuse_getxattr_in);

	return length > name + strlen(prefix) && memcmp((const char *)message + name, prefix, strlen(prefix)) == 0;
}

bool kr_lend_requests_take(struct kr_lend_requests *requests, const void *message, size_t length, uint64_t now_ns)
{
	struct fuse_in_header header;
	struct request *request;

	memcpy(&header, message, sizeof(header));
	if (header.opcode == FUSE_INTERRUPT) {
		if (length >= sizeof(struct kr_lend_interrupt))
			note_interrupt(requests, &header, (const uint8_t *)message + sizeof(header), now_ns);
		return false;
	}
	if (header.opcode == FUSE_RELEASE)
		released(requests, header.nodeid);
	else if (header.opcode == FUSE_GETXATTR && is_acl(message, length))
		find_held(requests, header.nodeid, true)->acl = true;
	else if (header.opcode == FUSE_FORGET)
		forgotten(requests, header.nodeid);
	else if (header.opcode == FUSE_BATCH_FORGET)
		many_forgotten(requests, (const uint8_t *)message + sizeof(header), length - sizeof(header));
	if (header.opcode != FUSE_FORGET && header.opcode != FUSE_BATCH_FORGET) {
		request = kr_xcalloc(1, sizeof(*request));
		request->header = header;
		request->taken_ns = now_ns;
		kr_table_insert(&requests->unanswered, &request->link, kr_hash_u64(header.unique));
	}
	return true;
}

/* Shortens the time for which the kernel may use an entry or attributes without asking.  All such answers begin with
 * the same fields. */
static void shorten(uint64_t *seconds, uint32_t *nanoseconds, uint64_t most_ns)
{
	if (*seconds < most_ns / KR_NS_PER_S ||
		(*seconds == most_ns / KR_NS_PER_S && *nanoseconds <= most_ns % KR_NS_PER_S))
		return;
	*seconds = most_ns / KR_NS_PER_S;
	*nanoseconds = (uint32_t)(most_ns % KR_NS_PER_S);
}

static void shorten_entry(uint8_t *bytes, uint64_t most_ns)
{
	struct fuse_entry_out entry;

	memcpy(&entry, bytes, sizeof(entry));
	shorten(&entry.entry_valid, &entry.entry_valid_nsec, most_ns);
	shorten(&entry.attr_valid, &entry.attr_valid_nsec, most_ns);
	memcpy(bytes, &entry, sizeof(entry));
}

static void shorten_attr(uint8_t *bytes, uint64_t most_ns)
{
	struct fuse_attr_out attr;

	memcpy(&attr, bytes, sizeof(attr));
	shorten(&attr.attr_valid, &attr.attr_valid_nsec, most_ns);
	memcpy(bytes, &attr, sizeof(attr));
}

static void shorten_listing(uint8_t *bytes, size_t length, uint64_t most_ns)
{
	struct fuse_direntplus entry;

	for (size_t at = 0; at + sizeof(entry) <= length; at += FUSE_DIRENTPLUS_SIZE(&entry)) {
		memcpy(&entry, bytes + at, sizeof(entry));
		shorten_entry(bytes + at, most_ns);
	}
}

/* The daemon counts from when it sends an answer for how long the kernel may use names and attributes, and allows for
 * little more.  So an answer that may have been on its way for longer says that the kernel is to ask again. */
static void shorten_loans(const struct request *request, uint64_t limit_ns, uint8_t *body, size_t length)
{
	switch (request->header.opcode) {
	case FUSE_LOOKUP:
	case FUSE_CREATE:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_SYMLINK:
	case FUSE_LINK:
	case OPCODE_TMPFILE:
		if (length >= sizeof(struct fuse_entry_out))
			shorten_entry(body, limit_ns);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		if (length >= sizeof(struct fuse_attr_out))
			shorten_attr(body, limit_ns);
		break;
	case FUSE_READDIRPLUS:
		shorten_listing(body, length, limit_ns);
		break;
	default:
		break;
	}
}

/* Of a new file the body begins with its number. */
static void note_open(
	struct kr_lend_requests *requests, const struct request *request, const uint8_t *body, size_t length)
{
	uint64_t number = request->header.nodeid;

	switch (request->header.opcode) {
	case FUSE_CREATE:
	case OPCODE_TMPFILE:
		if (length < sizeof(number))
			break;
		memcpy(&number, body, sizeof(number));
		__attribute__((fallthrough));
	case FUSE_OPEN:
		find_held(requests, number, true)->handles++;
		break;
	case FUSE_READ:
		kr_lend_requests_emptied(requests, number, false);
		break;
	default:
		break;
	}
}

void kr_lend_requests_emptied(struct kr_lend_requests *requests, uint64_t number, bool empty)
{
	struct held *held = find_held(requests, number, false);

	if (held)
		held->empty = empty;
}

bool kr_lend_requests_is_empty(struct kr_lend_requests *requests, uint64_t number)
{
	const struct held *held = find_held(requests, number, false);

	return held && held->empty;
}

bool kr_lend_requests_answered(
	struct kr_lend_requests *requests, void *reply, size_t length, uint64_t most_ns, uint64_t now_ns)
{
	uint8_t *body = (uint8_t *)reply + sizeof(struct fuse_out_header);
	struct fuse_out_header head;
	struct request *request;
	bool is_late;

	memcpy(&head, reply, sizeof(head));
	length -= sizeof(head);
	request = find_request(requests, head.unique);
	if (!request)
		return false;
	is_late = now_ns - request->taken_ns > LOAN_MS * KR_NS_PER_MS;
	if (head.error == 0) {
		note_open(requests, request, body, length);
		shorten_loans(request, is_late ? 0 : most_ns, body, length);
	}
	kr_table_remove(&requests->unanswered, &request->link);
	free(request);
	return true;
}

/* A wait for a lock ends by any signal (fuse/ops/op_lock.c). */
static bool ends_now(const struct request *request, uint64_t now_ns)
{
	if (!request->interrupt.len || request->told)
		return false;
	if (request->header.opcode == FUSE_SETLKW)
		return true;
	switch (kr_signals_pending((pid_t)request->header.pid)) {
	case KR_SIGNALS_DEADLY:
		return true;
	case KR_SIGNALS_END:
		return now_ns - request->interrupted_ns >= KR_SIGNALS_GRACE_MS * KR_NS_PER_MS;
	case KR_SIGNALS_OTHER:
		break;
	}
	return false;
}

bool kr_lend_requests_interrupt(
	struct kr_lend_requests *requests, uint64_t now_ns, struct kr_lend_interrupt *ret_interrupt)
{
	struct request *request;

	KR_TABLE_FOR_EACH(request, &requests->unanswered, link)
		if (ends_now(request, now_ns))
			break;
	if (!request)
		return false;
	request->told = true;
	*ret_interrupt = (struct kr_lend_interrupt){.header = request->interrupt, .in.unique = request->header.unique};
	return true;
}

/* --- groups ----------------------------------------------------------------------------------- */

static bool needs_groups(const struct fuse_in_header *header)
{
	switch (header->opcode) {
	case FUSE_READ:
	case FUSE_WRITE:
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
	case FUSE_INIT:
		return false;
	default:
		return header->uid != 0 && header->pid != 0;
	}
}

uint32_t kr_lend_requests_groups(const struct fuse_in_header *header, uint32_t groups[KR_GROUPS_MAX])
{
	char path[64], text[16384];
	const char *at;
	ssize_t length;
	uint32_t count;

	if (!needs_groups(header))
		return 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", header->pid);
	KR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[KR_MAX(length, (ssize_t)0)] = '\0';
	at = strstr(text, "\nGroups:");
	at = at ? at + strlen("\nGroups:") : "";
	for (count = 0; count < KR_GROUPS_MAX; count++) {
		char *end;

		at += strspn(at, "\t ");
		if (*at < '0' || *at > '9')
			break;
		groups[count] = (uint32_t)strtoul(at, &end, 10);
		at = end;
	}
	return count;
}
