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

enum { OPCODE_TMPFILE = 51 /* older headers lack it */ };

struct request {
	struct kr_table_link link;
	struct fuse_in_header header;
	struct fuse_in_header interrupt; /* len 0: none */
	uint64_t interrupted_ns;
	bool told; /* the lender knows of the interrupt */
};

struct open_file {
	struct kr_table_link link;
	uint64_t number;
	unsigned handles;
};

void kr_lend_requests_init(struct kr_lend_requests *requests)
{
	kr_table_init(&requests->unanswered);
	kr_table_init(&requests->open_files);
}

void kr_lend_requests_fini(struct kr_lend_requests *requests)
{
	kr_table_free_all(&requests->unanswered, offsetof(struct request, link));
	kr_table_free_all(&requests->open_files, offsetof(struct open_file, link));
}

/* --- open files ------------------------------------------------------------------------------- */

static bool is_number(const struct kr_table_link *link, const void *number)
{
	return KR_CONTAINER_OF(link, const struct open_file, link)->number == *(const uint64_t *)number;
}

static void count_open(struct kr_lend_requests *requests, uint64_t number, bool opened)
{
	const uint64_t hash = kr_hash_u64(number);
	struct kr_table_link *link = kr_table_find(&requests->open_files, hash, is_number, &number);
	struct open_file *file = link ? KR_CONTAINER_OF(link, struct open_file, link) : NULL;

	if (!file && !opened)
		return;
	if (!file) {
		file = kr_xcalloc(1, sizeof(*file));
		file->number = number;
		kr_table_insert(&requests->open_files, &file->link, hash);
	}
	file->handles += opened ? 1 : -1u;
	if (file->handles == 0) {
		kr_table_remove(&requests->open_files, &file->link);
		free(file);
	}
}

struct visit {
	void (*visit)(uint64_t number, void *context);
	void *context;
};

static bool visit_open(struct kr_table_link *link, void *context)
{
	const struct visit *visit = context;

	visit->visit(KR_CONTAINER_OF(link, struct open_file, link)->number, visit->context);
	return true;
}

void kr_lend_requests_each_open(
	struct kr_lend_requests *requests, void (*visit)(uint64_t number, void *context), void *context)
{
	kr_table_for_each(&requests->open_files, visit_open, &(struct visit){visit, context});
}

/* --- requests --------------------------------------------------------------------------------- */

static bool is_unique(const struct kr_table_link *link, const void *unique)
{
	return KR_CONTAINER_OF(link, const struct request, link)->header.unique == *(const uint64_t *)unique;
}

static struct request *find_request(struct kr_lend_requests *requests, uint64_t unique)
{
	struct kr_table_link *link = kr_table_find(&requests->unanswered, kr_hash_u64(unique), is_unique, &unique);

	return link ? KR_CONTAINER_OF(link, struct request, link) : NULL;
}

static void note_interrupt(struct kr_lend_requests *requests, const struct fuse_in_header *header, const void *body)
{
	struct fuse_interrupt_in in;
	struct request *request;

	memcpy(&in, body, sizeof(in));
	request = find_request(requests, in.unique);
	if (!request)
		return;
	request->interrupt = *header;
	request->interrupted_ns = kr_clock_ns();
}

bool kr_lend_requests_take(struct kr_lend_requests *requests, const void *message, size_t length)
{
	struct fuse_in_header header;
	struct request *request;

	memcpy(&header, message, sizeof(header));
	if (header.opcode == FUSE_INTERRUPT) {
		if (length >= sizeof(struct kr_lend_interrupt))
			note_interrupt(requests, &header, (const uint8_t *)message + sizeof(header));
		return false;
	}
	if (header.opcode == FUSE_RELEASE)
		count_open(requests, header.nodeid, false);
	if (header.opcode != FUSE_FORGET && header.opcode != FUSE_BATCH_FORGET) {
		request = kr_xcalloc(1, sizeof(*request));
		request->header = header;
		kr_table_insert(&requests->unanswered, &request->link, kr_hash_u64(header.unique));
	}
	return true;
}

bool kr_lend_requests_answered(struct kr_lend_requests *requests, const void *reply, size_t length)
{
	struct fuse_out_header head;
	struct request *request;
	uint64_t number;

	memcpy(&head, reply, sizeof(head));
	request = find_request(requests, head.unique);
	if (!request)
		return false;
	number = request->header.nodeid;
	/* The answer begins with the new file's number. */
	if ((request->header.opcode == FUSE_CREATE || request->header.opcode == OPCODE_TMPFILE) &&
		length >= sizeof(head) + sizeof(number))
		memcpy(&number, (const uint8_t *)reply + sizeof(head), sizeof(number));
	if (head.error == 0 &&
		(request->header.opcode == FUSE_OPEN || request->header.opcode == FUSE_CREATE ||
			request->header.opcode == OPCODE_TMPFILE))
		count_open(requests, number, true);
	kr_table_remove(&requests->unanswered, &request->link);
	free(request);
	return true;
}

/* A wait for a lock ends by any signal (fuse/ops/op_lock.c). */
static bool ends_now(const struct request *request)
{
	if (!request->interrupt.len || request->told)
		return false;
	if (request->header.opcode == FUSE_SETLKW)
		return true;
	switch (kr_signals_pending((pid_t)request->header.pid)) {
	case KR_SIGNALS_DEADLY:
		return true;
	case KR_SIGNALS_END:
		return kr_clock_ns() - request->interrupted_ns >= KR_SIGNALS_GRACE_MS * KR_NS_PER_MS;
	case KR_SIGNALS_OTHER:
		break;
	}
	return false;
}

static bool look_at_interrupt(struct kr_table_link *link, void *context)
{
	struct request *request = KR_CONTAINER_OF(link, struct request, link), **found = context;

	if (ends_now(request))
		*found = request;
	return *found == NULL;
}

bool kr_lend_requests_interrupt(struct kr_lend_requests *requests, struct kr_lend_interrupt *ret_interrupt)
{
	struct request *found = NULL;

	kr_table_for_each(&requests->unanswered, look_at_interrupt, &found);
	if (!found)
		return false;
	found->told = true;
	*ret_interrupt = (struct kr_lend_interrupt){.header = found->interrupt, .in.unique = found->header.unique};
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
