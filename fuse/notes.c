/* See notes.h.  A key is what is asked, of which file, and, where the answer depends on it, by whom. */
#include "fuse/notes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg.h"
#include "common/notes.h"
#include "fuse/note_store.h"
#include "fuse/rpc.h"

enum kind { ENTRY, ATTR, BARE, XATTR, XATTR_LIST, MAY, TARGET, PAGE };

struct kr_notes {
	pthread_mutex_t lock;
	struct kr_note_store store; /* [lock] */
	uint64_t known, learnt, forgets; /* [lock] */
};

struct key {
	size_t length;
	uint8_t bytes[1 + 1 + KR_FID_MAX + 12 + 4 * KR_GROUPS_MAX + KR_NAME_MAX + 1];
};

/* --- keys ------------------------------------------------------------------------------------------------------------- */

static void add(struct key *key, const void *bytes, size_t length)
{
	assert(length <= sizeof(key->bytes) - key->length);
	memcpy(key->bytes + key->length, bytes, length);
	key->length += length;
}

static void add_u32(struct key *key, uint32_t value)
{
	add(key, &value, sizeof(value));
}

static void key_of(struct key *key, enum kind kind, const struct kr_fid *fid)
{
	key->length = 0;
	add(key, &(uint8_t){(uint8_t)kind}, 1);
	add(key, &fid->length, 1);
	add(key, fid->bytes, fid->length);
}

static void key_by(struct key *key, enum kind kind, const struct kr_fid *fid, const struct kr_cred *cred)
{
	key_of(key, kind, fid);
	add_u32(key, cred->uid);
	add_u32(key, cred->gid);
	add_u32(key, cred->group_count);
	if (cred->group_count)
		add(key, cred->groups, cred->group_count * sizeof(cred->groups[0]));
}

static void key_entry(struct key *key, const struct kr_fid *parent, const struct kr_cred *cred, const char *name)
{
	key_by(key, ENTRY, parent, cred);
	add(key, name, strlen(name));
}

static void key_xattr(struct key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name)
{
	key_by(key, XATTR, fid, cred);
	add(key, name, strnlen(name, KR_NAME_MAX));
}

static void key_may(struct key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask)
{
	key_by(key, MAY, fid, cred);
	add_u32(key, mask);
}

static void key_page(struct key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie)
{
	key_by(key, PAGE, fid, cred);
	add(key, &cookie, sizeof(cookie));
}

/* --- learning ----------------------------------------------------------------------------------------------------------- */

/* One answer that is being learnt. */
struct answer {
	struct kr_notes *notes;
	uint64_t asked_ns;
	int err;
	uint16_t flags;
};

static void put(const struct answer *answer, const struct kr_fid *fid, const struct key *key, int err, const void *value,
	size_t length)
{
	kr_note_store_put(&answer->notes->store, kr_note_slot(fid), key->bytes, key->length, answer->asked_ns, err, value, length);
	answer->notes->learnt++;
}

static void learn_attr(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr *attr)
{
	struct key key;

	if (answer->err || !(answer->flags & KR_FRAME_NOTE_ATTR))
		return;
	key_of(&key, ATTR, fid);
	put(answer, fid, &key, 0, attr, sizeof(*attr));
	if (!(answer->flags & KR_FRAME_BARE))
		return;
	key_of(&key, BARE, fid);
	put(answer, fid, &key, 0, NULL, 0);
}

static void learn_entry(const struct answer *answer, const struct kr_cred *cred, const struct kr_fid *parent, const char *name,
	const struct kr_fid *fid)
{
	struct key key;

	if (!(answer->flags & KR_FRAME_NOTE) || (answer->err && answer->err != -ENOENT))
		return;
	key_entry(&key, parent, cred, name);
	put(answer, parent, &key, answer->err, fid, answer->err ? 0 : sizeof(*fid));
}

static void learn_bytes(const struct answer *answer, const struct kr_fid *fid, const struct key *key, const void *bytes,
	size_t length)
{
	if (answer->flags & KR_FRAME_NOTE)
		put(answer, fid, key, answer->err, bytes, answer->err ? 0 : length);
}

static void learn_xattr(const struct answer *answer, const struct kr_getxattr_request *asked, const struct kr_getxattr_reply *said)
{
	struct key key;

	if (answer->err ? answer->err != -ENODATA && answer->err != -EOPNOTSUPP : said->value.length != said->length)
		return; /* only its length */
	key_xattr(&key, &asked->file, &asked->cred, asked->name);
	learn_bytes(answer, &asked->file, &key, said ? said->value.bytes : NULL, said ? said->value.length : 0);
}

static void learn_page(const struct answer *answer, const struct kr_readdir_request *asked, const struct kr_readdir_reply *said)
{
	KR_AUTO_FREE uint8_t *bytes = NULL;
	struct key key;

	if (answer->err || !(bytes = malloc(1 + said->entries.length)))
		return;
	bytes[0] = said->end;
	if (said->entries.length)
		memcpy(bytes + 1, said->entries.bytes, said->entries.length);
	key_page(&key, &asked->file, &asked->cred, asked->cookie);
	learn_bytes(answer, &asked->file, &key, bytes, 1 + said->entries.length);
}

static void learn(const struct answer *answer, uint16_t type, const union kr_any_msg *asked, const union kr_any_msg *said)
{
	struct key key;

	switch (type) {
	case KR_MSG_LOOKUP:
		learn_entry(answer, &asked->lookup_request.cred, &asked->lookup_request.parent, asked->lookup_request.name,
			answer->err ? NULL : &said->lookup_reply.file);
		if (!answer->err)
			learn_attr(answer, &said->lookup_reply.file, &said->lookup_reply.attr);
		break;
	case KR_MSG_MAKE:
		if (answer->err)
			break;
		learn_entry(answer, &asked->make_request.cred, &asked->make_request.parent, asked->make_request.name, &said->make_reply.file);
		learn_attr(answer, &said->make_reply.file, &said->make_reply.attr);
		break;
	case KR_MSG_CREATE:
		if (answer->err)
			break;
		learn_entry(answer, &asked->create_request.cred, &asked->create_request.parent, asked->create_request.name,
			&said->create_reply.file);
		learn_attr(answer, &said->create_reply.file, &said->create_reply.attr);
		break;
	case KR_MSG_GETATTR:
		if (!answer->err)
			learn_attr(answer, &asked->getattr_request.file, &said->getattr_reply.attr);
		break;
	case KR_MSG_SETATTR:
		if (!answer->err)
			learn_attr(answer, &asked->setattr_request.file, &said->setattr_reply.attr);
		break;
	case KR_MSG_LINK:
		if (!answer->err)
			learn_attr(answer, &asked->link_request.file, &said->link_reply.attr);
		break;
	case KR_MSG_READLINK:
		key_of(&key, TARGET, &asked->readlink_request.file);
		if (!answer->err)
			learn_bytes(answer, &asked->readlink_request.file, &key, said->readlink_reply.target, strlen(said->readlink_reply.target) + 1);
		break;
	case KR_MSG_ACCESS:
		key_may(&key, &asked->access_request.file, &asked->access_request.cred, asked->access_request.mask);
		if (!answer->err || answer->err == -EACCES)
			learn_bytes(answer, &asked->access_request.file, &key, NULL, 0);
		break;
	case KR_MSG_GETXATTR:
		learn_xattr(answer, &asked->getxattr_request, answer->err ? NULL : &said->getxattr_reply);
		break;
	case KR_MSG_LISTXATTR:
		key_by(&key, XATTR_LIST, &asked->listxattr_request.file, &asked->listxattr_request.cred);
		if (!answer->err && said->listxattr_reply.names.length == said->listxattr_reply.length)
			learn_bytes(answer, &asked->listxattr_request.file, &key, said->listxattr_reply.names.bytes,
				said->listxattr_reply.names.length);
		break;
	case KR_MSG_READDIR:
		learn_page(answer, &asked->readdir_request, answer->err ? NULL : &said->readdir_reply);
		break;
	default:
		break;
	}
}

void kr_notes_opened(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *now)
{
	struct kr_notes *notes = mount->notes;
	const struct kr_note *note;
	struct kr_attr attr;
	struct key key;

	if (!notes)
		return;
	key_of(&key, ATTR, fid);
	KR_SCOPED_LOCK(&notes->lock);
	note = kr_note_store_get(&notes->store, key.bytes, key.length, kr_clock_ns());
	if (!note)
		return;
	memcpy(&attr, kr_note_value(note), sizeof(attr));
	if (kr_time_compare(now->atime, attr.atime) <= 0)
		return;
	attr.atime = now->atime;
	kr_note_store_amend(&notes->store, note, &attr);
}

void kr_notes_learn(struct kr_mount *mount, uint16_t type, const void *fields, size_t length, int err, const void *reply,
	uint16_t flags, uint64_t asked_ns)
{
	struct answer answer = {.notes = mount->notes, .asked_ns = asked_ns, .err = err, .flags = flags};
	union kr_any_msg *asked;
	struct kr_arena arena = {0};

	if (!mount->notes || !(flags & (KR_FRAME_NOTE | KR_FRAME_NOTE_ATTR)))
		return;
	asked = kr_xcalloc(1, sizeof(*asked));
	if (kr_msg_decode(type, false, fields, length, asked, &arena) == 0) {
		KR_SCOPED_LOCK(&mount->notes->lock);
		learn(&answer, type, asked, reply);
	}
	kr_arena_fini(&arena);
	free(asked);
}

/* --- forgetting --------------------------------------------------------------------------------------------------------- */

static void forget(struct kr_mount *mount, uint32_t slot)
{
	KR_SCOPED_LOCK(&mount->notes->lock);

	kr_note_store_forget(&mount->notes->store, slot);
	mount->notes->forgets++;
}

static void on_forget(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_forget_request *request = message;

	(void)data;
	forget(mount, request->slot);
	kr_rpc_answer(mount->rpc, down, 0, NULL);
}

void kr_notes_clear(struct kr_mount *mount)
{
	if (mount->notes)
		forget(mount, KR_NOTE_ALL);
}

void kr_notes_start(struct kr_mount *mount)
{
	kr_rpc_on(mount->rpc, KR_MSG_FORGET, on_forget);
}

struct kr_notes *kr_notes_new(void)
{
	struct kr_notes *notes = kr_xcalloc(1, sizeof(*notes));

	pthread_mutex_init(&notes->lock, NULL);
	kr_note_store_init(&notes->store);
	return notes;
}

void kr_notes_free(struct kr_notes *notes)
{
	if (!notes)
		return;
	kr_note_store_fini(&notes->store);
	pthread_mutex_destroy(&notes->lock);
	free(notes);
}

/* --- knowing ------------------------------------------------------------------------------------------------------------ */

/* [lock] held. The value is copied into BUFFER of SIZE; what does not fit is not known. */
static bool get(struct kr_mount *mount, const struct key *key, int *ret_err, void *buffer, size_t size, size_t *ret_length,
	uint64_t *ret_asked_ns)
{
	uint64_t now_ns = kr_clock_ns();
	const struct kr_note *note;

	if (now_ns >= atomic_load_explicit(&mount->fence_at_ns, memory_order_relaxed))
		return false;
	note = kr_note_store_get(&mount->notes->store, key->bytes, key->length, now_ns);
	if (!note || note->length > size)
		return false;
	if (note->length)
		memcpy(buffer, kr_note_value(note), note->length);
	if (ret_err)
		*ret_err = note->err;
	if (ret_length)
		*ret_length = note->length;
	if (ret_asked_ns)
		*ret_asked_ns = note->asked_ns;
	return true;
}

static bool get_attr(struct kr_mount *mount, const struct kr_fid *fid, struct kr_attr *ret_attr, uint64_t *ret_asked_ns)
{
	struct key key;

	key_of(&key, ATTR, fid);
	return get(mount, &key, NULL, ret_attr, sizeof(*ret_attr), NULL, ret_asked_ns);
}

bool kr_notes_lookup(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name,
	int *ret_err, struct kr_fid *ret_fid, struct kr_attr *ret_attr, uint64_t *ret_asked_ns)
{
	struct key key;
	bool known;

	if (!mount->notes)
		return false;
	key_entry(&key, parent, cred, name);
	KR_SCOPED_LOCK(&mount->notes->lock);
	known = get(mount, &key, ret_err, ret_fid, sizeof(*ret_fid), NULL, NULL) &&
		(*ret_err || get_attr(mount, ret_fid, ret_attr, ret_asked_ns));
	mount->notes->known += known;
	return known;
}

bool kr_notes_getattr(struct kr_mount *mount, const struct kr_fid *fid, struct kr_attr *ret_attr, uint64_t *ret_asked_ns)
{
	bool known;

	if (!mount->notes)
		return false;
	KR_SCOPED_LOCK(&mount->notes->lock);
	known = get_attr(mount, fid, ret_attr, ret_asked_ns);
	mount->notes->known += known;
	return known;
}

/* One note whose answer is bytes. */
static bool get_bytes(struct kr_mount *mount, const struct key *key, int *ret_err, void *buffer, size_t size, size_t *ret_length)
{
	bool known;

	KR_SCOPED_LOCK(&mount->notes->lock);
	known = get(mount, key, ret_err, buffer, size, ret_length, NULL);
	mount->notes->known += known;
	return known;
}

bool kr_notes_access(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mask, int *ret_err)
{
	struct key key;

	if (!mount->notes)
		return false;
	key_may(&key, fid, cred, mask);
	return get_bytes(mount, &key, ret_err, NULL, 0, NULL);
}

bool kr_notes_readlink(struct kr_mount *mount, const struct kr_fid *fid, char *target)
{
	struct key key;

	if (!mount->notes)
		return false;
	key_of(&key, TARGET, fid);
	return get_bytes(mount, &key, NULL, target, KR_PATH_MAX + 1, NULL);
}

static bool bare(struct kr_mount *mount, const struct kr_fid *fid)
{
	struct key key;

	key_of(&key, BARE, fid);
	return get_bytes(mount, &key, NULL, NULL, 0, NULL);
}

/* Names that anybody may ask for: whether a file has user.* is told only to those who may read it. */
static bool free_to_ask(const char *name)
{
	return strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0 ||
		strncmp(name, "security.", strlen("security.")) == 0;
}

bool kr_notes_getxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, const char *name,
	int *ret_err, void *buffer, size_t size, size_t *ret_length)
{
	struct key key;

	if (!mount->notes)
		return false;
	if (free_to_ask(name) && bare(mount, fid)) {
		*ret_err = -ENODATA;
		return true;
	}
	key_xattr(&key, fid, cred, name);
	return get_bytes(mount, &key, ret_err, buffer, size, ret_length);
}

bool kr_notes_listxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, void *buffer, size_t size,
	size_t *ret_length)
{
	struct key key;

	if (!mount->notes)
		return false;
	if (bare(mount, fid)) {
		*ret_length = 0;
		return true;
	}
	key_by(&key, XATTR_LIST, fid, cred);
	return get_bytes(mount, &key, NULL, buffer, size, ret_length);
}

bool kr_notes_readdir(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, uint64_t cookie,
	void *buffer, size_t size, size_t *ret_length, bool *ret_end)
{
	KR_AUTO_FREE uint8_t *bytes = NULL;
	struct key key;
	size_t length;

	if (!mount->notes || !(bytes = malloc(1 + size)))
		return false;
	key_page(&key, fid, cred, cookie);
	if (!get_bytes(mount, &key, NULL, bytes, 1 + size, &length) || length < 1)
		return false;
	*ret_end = bytes[0];
	*ret_length = length - 1;
	memcpy(buffer, bytes + 1, length - 1);
	return true;
}

json_t *kr_notes_status(struct kr_mount *mount)
{
	struct kr_notes *notes = mount->notes;
	KR_SCOPED_LOCK(&notes->lock);

	return json_pack("{s:I,s:I,s:I,s:I,s:I}", "notes", (json_int_t)notes->store.by_key.count, "bytes",
		(json_int_t)notes->store.bytes, "known", (json_int_t)notes->known, "learnt", (json_int_t)notes->learnt, "forgets",
		(json_int_t)notes->forgets);
}
