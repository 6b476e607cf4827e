/* The record of executed requests: see executed.h.
 *
 * A slot is invalid (phase 0) while its key is written, so that the end of the process at any store leaves no slot with
 * half a key.
 */
#include "server/executed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/table.h"
#include "common/util.h"

struct slot {
	struct kr_executed_key key;
	uint64_t value;
	int32_t err;
	uint32_t phase;
	uint64_t number; /* ascends with every slot used */
	uint64_t before; /* of its turn */
};
_Static_assert(sizeof(struct slot) == 64, "slots are 64 bytes");

/* Of what the phases mean. */
static const uint8_t format[16] = "kairan turns 2";

struct kr_executed {
	pthread_mutex_t lock;
	uint8_t *bytes; /* mapped: a block of the size of one slot that begins with the boot id and the format, then the slots */
	struct slot *slots;
	uint64_t last;  /* number */
	uint32_t where[KR_EXECUTED_SLOTS]; /* by hash of the key: the slot that may have it */
	bool inherited;
};

enum { LENGTH = (KR_EXECUTED_SLOTS + 1) * sizeof(struct slot) };

static int map(struct kr_executed *executed, int dir)
{
	KR_AUTO_FD int fd = openat(dir, "executed", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err;

	if (fd < 0)
		return kr_fail_errno(-errno, "cannot open 'executed' in the state directory");
	/* All its space now: a store into a hole of a full disk would be the end. */
	err = posix_fallocate(fd, 0, LENGTH);
	if (err)
		return kr_fail_errno(-err, "cannot make 'executed' in the state directory");
	executed->bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (executed->bytes == MAP_FAILED) {
		executed->bytes = NULL;
		return kr_fail_errno(-errno, "cannot map 'executed' in the state directory");
	}
	return 0;
}

int kr_executed_open(int dir, const uint8_t boot_id[16], struct kr_executed **ret_executed)
{
	struct kr_executed *executed = kr_xcalloc(1, sizeof(*executed));
	int err = map(executed, dir);

	if (err) {
		free(executed);
		return err;
	}
	executed->slots = (struct slot *)(void *)(executed->bytes + sizeof(struct slot));
	pthread_mutex_init(&executed->lock, NULL);
	executed->inherited = memcmp(executed->bytes, boot_id, 16) == 0 && memcmp(executed->bytes + 16, format, sizeof(format)) == 0;
	if (!executed->inherited) {
		memset(executed->bytes, 0, LENGTH);
		memcpy(executed->bytes + 16, format, sizeof(format));
		memcpy(executed->bytes, boot_id, 16);
	}
	for (int i = 0; i < KR_EXECUTED_SLOTS; i++)
		executed->last = KR_MAX(executed->last, executed->slots[i].number);
	*ret_executed = executed;
	return 0;
}

void kr_executed_close(struct kr_executed *executed)
{
	if (!executed)
		return;
	munmap(executed->bytes, LENGTH);
	pthread_mutex_destroy(&executed->lock);
	free(executed);
}

static void set_phase(struct slot *slot, enum kr_executed_phase phase)
{
	__atomic_store_n(&slot->phase, phase, __ATOMIC_SEQ_CST);
}

static size_t place(const struct kr_executed_key *key)
{
	return kr_hash_bytes(key, sizeof(*key)) % KR_EXECUTED_SLOTS;
}

static struct slot *find(const struct kr_executed *executed, const struct kr_executed_key *key)
{
	struct slot *likely = &executed->slots[executed->where[place(key)]];

	if (likely->phase != KR_EXECUTED_UNKNOWN && memcmp(&likely->key, key, sizeof(*key)) == 0)
		return likely;
	/* From the latest back. */
	for (uint64_t i = 0; i < KR_EXECUTED_SLOTS; i++) {
		struct slot *slot = &executed->slots[(executed->last - i) % KR_EXECUTED_SLOTS];

		if (slot->phase != KR_EXECUTED_UNKNOWN && memcmp(&slot->key, key, sizeof(*key)) == 0)
			return slot;
	}
	return NULL;
}

void kr_executed_begin(struct kr_executed *executed, const struct kr_executed_key *key, bool doubtful)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (slot && slot->phase == KR_EXECUTED_TURN)
		return;
	slot = &executed->slots[++executed->last % KR_EXECUTED_SLOTS];
	executed->where[place(key)] = (uint32_t)(executed->last % KR_EXECUTED_SLOTS);
	set_phase(slot, KR_EXECUTED_UNKNOWN);
	slot->key = *key;
	slot->number = executed->last;
	set_phase(slot, doubtful ? KR_EXECUTED_DOUBT : KR_EXECUTED_BEGUN);
}

/* What belongs to a phase is stored before it. */
void kr_executed_end(struct kr_executed *executed, const struct kr_executed_key *key, int err, uint64_t value)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (!slot)
		return;
	slot->err = err;
	slot->value = value;
	set_phase(slot, KR_EXECUTED_DONE);
}

void kr_executed_turn(struct kr_executed *executed, const struct kr_executed_key *key, uint64_t before)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (!slot)
		return;
	slot->before = before;
	set_phase(slot, KR_EXECUTED_TURN);
}

void kr_executed_no_turn(struct kr_executed *executed, const struct kr_executed_key *key, enum kr_executed_phase phase)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (slot)
		set_phase(slot, phase);
}

bool kr_executed_inherited(const struct kr_executed *executed)
{
	return executed->inherited;
}

bool kr_executed_never(struct kr_executed *executed, const struct kr_executed_key *key)
{
	KR_SCOPED_LOCK(&executed->lock);

	if (executed->last < KR_EXECUTED_SLOTS)
		return true;
	for (int i = 0; i < KR_EXECUTED_SLOTS; i++) {
		const struct kr_executed_key *other = &executed->slots[i].key;

		if (executed->slots[i].phase != KR_EXECUTED_UNKNOWN && other->request < key->request &&
			other->incarnation == key->incarnation && memcmp(other->node_id, key->node_id, sizeof(key->node_id)) == 0)
			return true;
	}
	return false;
}

bool kr_executed_by_other(struct kr_executed *executed, const struct kr_executed_key *key, uint64_t value)
{
	KR_SCOPED_LOCK(&executed->lock);

	for (int i = 0; i < KR_EXECUTED_SLOTS; i++) {
		const struct slot *slot = &executed->slots[i];

		if (slot->phase == KR_EXECUTED_DONE && !slot->err && slot->value == value && memcmp(&slot->key, key, sizeof(*key)) != 0)
			return true;
	}
	return false;
}

enum kr_executed_phase kr_executed_find(struct kr_executed *executed, const struct kr_executed_key *key, int *ret_err,
	uint64_t *ret_value)
{
	KR_SCOPED_LOCK(&executed->lock);
	const struct slot *slot = find(executed, key);

	if (!slot)
		return KR_EXECUTED_UNKNOWN;
	*ret_err = slot->err;
	*ret_value = slot->phase == KR_EXECUTED_TURN ? slot->before : slot->value;
	return (enum kr_executed_phase)slot->phase;
}
