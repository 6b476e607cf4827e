/* The record of executed requests: see executed_log.h.
 *
 * A slot lies in one page, so one write(2) puts all of it into the page cache or nothing, whenever the process is
 * killed.  An intent record can lie in two.  So it is valid by a write of its own.
 *
 * If the file cannot be written (btrfs and XFS may need room for bytes that they have given room to), it is removed.
 * The next instance then knows of nothing that was executed, and not of half of it.
 */
#include "server/recovery/executed_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "server/export/intent.h"

struct slot {
	struct kr_executed_key key;
	uint64_t value;
	int32_t err;
	uint16_t phase;
	uint16_t again;  /* it was sent before it was begun here: says nothing of those that its node sent after it */
	uint64_t number; /* ascends with every slot used */
	uint64_t before; /* of its intent */
};
_Static_assert(sizeof(struct slot) == 64, "slots are 64 bytes");

/* The intent of a change of names.  It counts for the slot with its key if that is in the phase INTENT. */
struct intent {
	uint32_t valid;
	uint32_t phase; /* of the slot, before */
	struct kr_executed_key key;
	uint64_t before, other;
	uint32_t kind, type;
	struct kr_fid parent, new_parent;
	char name[KR_NAME_MAX + 1], new_name[KR_NAME_MAX + 1];
};

/* The version of the phases' meaning, and of what follows the slots. */
static const uint8_t format[16] = "kairan turns 4";

struct kr_executed {
	pthread_mutex_t lock;
	int dir, fd; /* dir: borrowed; fd: of the file, -1 if it cannot be written */
	/* As in the file: a block of the size of one slot (boot id, format, COMPLETE), then the slots, then the intents. */
	uint8_t *bytes;
	struct slot *slots;
	struct intent *intents; /* behind the slots */
	uint64_t last;          /* number */
	/* Where the keys are: by hash the slot that has got its key last, and by slot the one before with the same
	 * hash; + 1, 0: none. */
	uint32_t latest[KR_EXECUTED_SLOTS], earlier[KR_EXECUTED_SLOTS];
	bool was_complete;
};

enum {
	COMPLETE = 32, /* where the first block says whether a grace period of this boot is over */
	SLOTS_LENGTH = (KR_EXECUTED_SLOTS + 1) * sizeof(struct slot),
	LENGTH = SLOTS_LENGTH + KR_EXECUTED_INTENTS * sizeof(struct intent),
};

static const char file_name[] = "executed";

static void go_on_without(struct kr_executed *executed, int error)
{
	kr_log_error("cannot write '%s' in the state directory: %s: if this server is killed, the next one may execute "
		     "requests again whose answers were lost; start it anew when there is room",
		file_name, strerror(error));
	unlinkat(executed->dir, file_name, 0);
	if (executed->fd >= 0)
		close(executed->fd);
	executed->fd = -1;
}

/* PART of the bytes goes to the file.  The lock is held, or there is one thread. */
static void store(struct kr_executed *executed, const void *part, size_t length)
{
	off_t offset = (const uint8_t *)part - executed->bytes;
	ssize_t done = executed->fd < 0 ? (ssize_t)length : pwrite(executed->fd, part, length, offset);

	if (done != (ssize_t)length)
		go_on_without(executed, done < 0 ? errno : ENOSPC);
}

/* A file that is shorter has 0s at the end. */
static int read_file(struct kr_executed *executed)
{
	executed->fd = openat(executed->dir, file_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (executed->fd < 0 && (errno == ENOSPC || errno == EDQUOT))
		go_on_without(executed, errno);
	else if (executed->fd < 0)
		return kr_fail_errno(-errno, "cannot open '%s' in the state directory", file_name);
	else if (pread(executed->fd, executed->bytes, LENGTH, 0) < 0)
		return kr_fail_errno(-errno, "cannot read '%s' in the state directory", file_name);
	return 0;
}

/* Whether boot id and format of the file are ours; they are 0s when it is new. */
static bool is_inherited(const struct kr_executed *executed, const uint8_t boot_id[16])
{
	static const uint8_t none[16];
	const uint8_t *there = executed->bytes + 16;

	if (memcmp(executed->bytes, boot_id, 16) != 0)
		return false;
	if (memcmp(there, format, sizeof(format)) == 0)
		return true;
	if (memcmp(there, none, sizeof(none)) != 0)
		kr_log_warn("'%s' in the state directory is of another version of kairand: "
			    "what that has executed is forgotten",
			file_name);
	return false;
}

/* --- keys ------------------------------------------------------------------------------------- */

static size_t place(const struct kr_executed_key *key)
{
	return kr_hash_bytes(key, sizeof(*key)) % KR_EXECUTED_SLOTS;
}

static uint32_t index_of(const struct kr_executed *executed, const struct slot *slot)
{
	return (uint32_t)(slot - executed->slots);
}

static void add_key(struct kr_executed *executed, const struct slot *slot)
{
	uint32_t *latest = &executed->latest[place(&slot->key)];

	executed->earlier[index_of(executed, slot)] = *latest;
	*latest = index_of(executed, slot) + 1;
}

/* Nothing if it has not been added. */
static void remove_key(struct kr_executed *executed, const struct slot *slot)
{
	uint32_t *at = &executed->latest[place(&slot->key)];

	while (*at && *at != index_of(executed, slot) + 1)
		at = &executed->earlier[*at - 1];
	if (*at)
		*at = executed->earlier[*at - 1];
}

/* From the oldest on. */
static void add_all_keys(struct kr_executed *executed)
{
	for (uint64_t i = 1; i <= KR_EXECUTED_SLOTS; i++) {
		const struct slot *slot = &executed->slots[(executed->last + i) % KR_EXECUTED_SLOTS];

		if (slot->phase != KR_EXECUTED_UNKNOWN)
			add_key(executed, slot);
	}
}

/* The latest. */
static struct slot *find(const struct kr_executed *executed, const struct kr_executed_key *key)
{
	for (uint32_t i = executed->latest[place(key)]; i; i = executed->earlier[i - 1]) {
		struct slot *slot = &executed->slots[i - 1];

		if (slot->phase != KR_EXECUTED_UNKNOWN && memcmp(&slot->key, key, sizeof(*key)) == 0)
			return slot;
	}
	return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

int kr_executed_open(int dir, const uint8_t boot_id[16], struct kr_executed **ret_executed)
{
	struct kr_executed *executed = kr_xcalloc(1, sizeof(*executed));
	int err;

	pthread_mutex_init(&executed->lock, NULL);
	executed->dir = dir;
	executed->bytes = kr_xcalloc(1, LENGTH);
	err = read_file(executed);
	if (err) {
		kr_executed_close(executed);
		return err;
	}
	executed->slots = (struct slot *)(void *)(executed->bytes + sizeof(struct slot));
	executed->intents = (struct intent *)(void *)(executed->bytes + SLOTS_LENGTH);
	if (is_inherited(executed, boot_id)) {
		executed->was_complete = executed->bytes[COMPLETE];
	} else {
		memset(executed->bytes, 0, LENGTH);
		memcpy(executed->bytes + 16, format, sizeof(format));
		memcpy(executed->bytes, boot_id, 16);
		store(executed, executed->bytes + 16, LENGTH - 16); /* first, so that nothing of a former boot counts */
		store(executed, executed->bytes, 16);
	}
	for (int i = 0; i < KR_EXECUTED_SLOTS; i++)
		executed->last = KR_MAX(executed->last, executed->slots[i].number);
	add_all_keys(executed);
	*ret_executed = executed;
	return 0;
}

void kr_executed_close(struct kr_executed *executed)
{
	if (!executed)
		return;
	if (executed->fd >= 0)
		close(executed->fd);
	free(executed->bytes);
	pthread_mutex_destroy(&executed->lock);
	free(executed);
}

static void set_phase(struct kr_executed *executed, struct slot *slot, enum kr_executed_phase phase)
{
	slot->phase = (uint16_t)phase;
	store(executed, slot, sizeof(*slot));
}

static void begin(
	struct kr_executed *executed, const struct kr_executed_key *key, bool again, enum kr_executed_phase phase)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (slot && slot->phase == KR_EXECUTED_INTENT)
		return;
	slot = &executed->slots[++executed->last % KR_EXECUTED_SLOTS];
	remove_key(executed, slot);
	slot->key = *key;
	add_key(executed, slot);
	slot->number = executed->last;
	slot->again = again;
	set_phase(executed, slot, phase);
}

void kr_executed_begin(struct kr_executed *executed, const struct kr_executed_key *key)
{
	begin(executed, key, false, KR_EXECUTED_BEGUN);
}

void kr_executed_begin_again(struct kr_executed *executed, const struct kr_executed_key *key, bool doubtful)
{
	begin(executed, key, true, doubtful ? KR_EXECUTED_DOUBT : KR_EXECUTED_BEGUN);
}

int kr_executed_print(int dir, FILE *to)
{
	static const char *const phases[] = {"unknown", "begun", "done", "in doubt", "intent"};
	KR_AUTO_FREE char *bytes = NULL;
	const struct slot *slots;
	size_t length = 0, oldest = 1;
	int err = kr_read_file(dir, file_name, LENGTH, &bytes, &length);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (length != LENGTH || memcmp(bytes + 16, format, sizeof(format)) != 0)
		return 0;
	slots = (const struct slot *)(const void *)(bytes + sizeof(struct slot));
	for (size_t i = 1; i < KR_EXECUTED_SLOTS; i++) {
		if (slots[i].number < slots[oldest].number)
			oldest = i;
	}
	for (size_t i = 0; i < KR_EXECUTED_SLOTS; i++) {
		const struct slot *slot = &slots[(oldest + i) % KR_EXECUTED_SLOTS];
		char node[33];

		if (slot->phase == KR_EXECUTED_UNKNOWN || slot->phase >= KR_ARRAY_SIZE(phases))
			continue;
		fprintf(to, "executed: %s %" PRIu64 " %" PRIu64 " %s %d %" PRIu64 "\n",
			kr_hex_format(slot->key.node_id, 16, node), slot->key.incarnation, slot->key.request,
			phases[slot->phase], slot->err, slot->value);
	}
	return 0;
}

/* --- intents ---------------------------------------------------------------------------------- */

static void set_valid(struct kr_executed *executed, struct intent *intent, bool valid)
{
	intent->valid = valid;
	store(executed, &intent->valid, sizeof(intent->valid));
}

static void write_intent(struct kr_executed *executed, const struct slot *slot, const struct kr_intent_change *change)
{
	struct intent *intent = executed->intents;

	while (intent < executed->intents + KR_EXECUTED_INTENTS && intent->valid)
		intent++;
	if (intent == executed->intents + KR_EXECUTED_INTENTS)
		return;
	*intent = (struct intent){.phase = slot->phase,
		.key = slot->key,
		.before = change->before,
		.other = change->other,
		.kind = change->kind,
		.type = change->type,
		.parent = *change->parent};
	snprintf(intent->name, sizeof(intent->name), "%s", change->name);
	if (change->new_parent) {
		intent->new_parent = *change->new_parent;
		snprintf(intent->new_name, sizeof(intent->new_name), "%s", change->new_name);
	}
	store(executed, intent, sizeof(*intent));
	set_valid(executed, intent, true);
}

static void clear_intent(struct kr_executed *executed, const struct kr_executed_key *key)
{
	for (struct intent *intent = executed->intents; intent < executed->intents + KR_EXECUTED_INTENTS; intent++)
		if (intent->valid && memcmp(&intent->key, key, sizeof(*key)) == 0)
			set_valid(executed, intent, false);
}

void kr_executed_end(struct kr_executed *executed, const struct kr_executed_key *key, int err, uint64_t value)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (slot) {
		slot->err = err;
		slot->value = value;
		set_phase(executed, slot, KR_EXECUTED_DONE);
	}
	clear_intent(executed, key);
}

void kr_executed_intent(
	struct kr_executed *executed, const struct kr_executed_key *key, const struct kr_intent_change *change)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (!slot)
		return;
	write_intent(executed, slot, change);
	slot->before = change->before;
	set_phase(executed, slot, KR_EXECUTED_INTENT);
}

void kr_executed_no_intent(
	struct kr_executed *executed, const struct kr_executed_key *key, enum kr_executed_phase phase)
{
	KR_SCOPED_LOCK(&executed->lock);
	struct slot *slot = find(executed, key);

	if (slot)
		set_phase(executed, slot, phase);
	clear_intent(executed, key);
}

static void settle(struct kr_executed *executed, struct slot *slot, const struct intent *intent,
	enum kr_executed_phase verdict, uint64_t value)
{
	if (verdict == KR_EXECUTED_DONE) {
		slot->err = 0;
		slot->value = value;
		set_phase(executed, slot, KR_EXECUTED_DONE);
	} else {
		set_phase(executed, slot, (enum kr_executed_phase)intent->phase);
	}
}

/* The records are given up only when all are settled, so that the next instance finds them again after a kill. */
void kr_executed_settle(struct kr_executed *executed,
	enum kr_executed_phase (*judge)(void *context, const struct kr_intent_change *change, uint64_t *ret_value),
	void *context)
{
	struct intent *intent, *end = executed->intents + KR_EXECUTED_INTENTS;
	KR_SCOPED_LOCK(&executed->lock);

	for (intent = executed->intents; intent < end; intent++) {
		struct kr_intent_change change = {.kind = (enum kr_intent_kind)intent->kind,
			.type = intent->type,
			.parent = &intent->parent,
			.name = intent->name,
			.before = intent->before,
			.other = intent->other,
			.new_parent = &intent->new_parent,
			.new_name = intent->new_name};
		struct slot *slot = intent->valid ? find(executed, &intent->key) : NULL;
		enum kr_executed_phase verdict = KR_EXECUTED_INTENT;
		uint64_t value = 0;

		if (slot && slot->phase == KR_EXECUTED_INTENT)
			verdict = judge(context, &change, &value);
		if (verdict != KR_EXECUTED_INTENT)
			settle(executed, slot, intent, verdict, value);
	}
	for (intent = executed->intents; intent < end; intent++) {
		if (intent->valid)
			set_valid(executed, intent, false);
	}
}

void kr_executed_complete(struct kr_executed *executed)
{
	KR_SCOPED_LOCK(&executed->lock);

	executed->bytes[COMPLETE] = true;
	store(executed, &executed->bytes[COMPLETE], 1);
}

bool kr_executed_was_complete(const struct kr_executed *executed)
{
	return executed->was_complete;
}

bool kr_executed_never(struct kr_executed *executed, const struct kr_executed_key *key)
{
	KR_SCOPED_LOCK(&executed->lock);

	if (executed->last < KR_EXECUTED_SLOTS)
		return true;
	for (int i = 0; i < KR_EXECUTED_SLOTS; i++) {
		const struct slot *slot = &executed->slots[i];
		const struct kr_executed_key *other = &slot->key;

		if (slot->phase != KR_EXECUTED_UNKNOWN && !slot->again && other->request < key->request &&
			other->incarnation == key->incarnation &&
			memcmp(other->node_id, key->node_id, sizeof(key->node_id)) == 0)
			return true;
	}
	return false;
}

bool kr_executed_by_other(struct kr_executed *executed, const struct kr_executed_key *key, uint64_t value)
{
	KR_SCOPED_LOCK(&executed->lock);

	for (int i = 0; i < KR_EXECUTED_SLOTS; i++) {
		const struct slot *slot = &executed->slots[i];

		if (slot->phase == KR_EXECUTED_DONE && !slot->err && slot->value == value &&
			memcmp(&slot->key, key, sizeof(*key)) != 0)
			return true;
	}
	return false;
}

enum kr_executed_phase kr_executed_find(
	struct kr_executed *executed, const struct kr_executed_key *key, int *ret_err, uint64_t *ret_value)
{
	KR_SCOPED_LOCK(&executed->lock);
	const struct slot *slot = find(executed, key);

	if (!slot)
		return KR_EXECUTED_UNKNOWN;
	*ret_err = slot->err;
	*ret_value = slot->phase == KR_EXECUTED_INTENT ? slot->before : slot->value;
	return (enum kr_executed_phase)slot->phase;
}
